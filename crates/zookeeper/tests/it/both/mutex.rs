//! The mutex end to end on a real server.

use lockkeeper_conformance::{granted, soon};

use crate::support::Bench;

use super::SERVER;

#[tokio::test]
async fn one_holds_and_the_next_is_granted_when_it_lets_go() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, bob) = (bench.party(""), bench.neighbour(""));
    let guard = ann.lock("reports").await;
    assert!(guard.hold().is_held());
    let mutex = bob.keeper.mutex("reports").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let waiting = bob.queue_up("reports").await;
    let first = guard.fencing_token();
    soon("the release", guard.release()).await.unwrap();
    let next = granted(waiting).await;
    assert!(next.fencing_token() > first);
    let shown = ann.keeper.contenders("reports").await.unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].owner.as_ref().unwrap().pid, std::process::id());
    assert_eq!(shown[0].token, Some(next.fencing_token()));
    assert_eq!(ann.keeper.queues("rep").await.unwrap()[0].as_str(), "reports");
    drop(next);
    bench.until_ephemerals(0).await;
}
