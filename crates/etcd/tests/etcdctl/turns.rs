//! Turns: ours and `etcdctl` keep each other out, and stand in one order.

use lockkeeper_conformance::soon;
use lockkeeper_core::Mode;
use lockkeeper_faults::etcd::Server;
use tempfile::tempdir;

use crate::etcdctl::Etcdctl;
use crate::{keeper, until_contenders, until_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_etcdctl_holds_keeps_ours_out_and_all_are_served_in_one_order() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let notes = tempdir().expect("a folder");
    let keeper = keeper(server.address());
    let mutex = keeper.mutex("jobs/nightly").expect("a name");
    let [entered, go, last] = ["entered", "go", "last"].map(|name| notes.path().join(name));
    let script = format!("touch {}; until [ -e {} ]; do sleep 0.02; done", entered.display(), go.display());
    let first = Etcdctl::start(server.address(), &["lock", "jobs/nightly", "--", "sh", "-c", &script]);
    until_there(&entered).await;
    assert!(soon("the look", mutex.try_lock()).await.expect("a look").is_none(), "etcdctl holds it");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_contenders(&keeper, "jobs/nightly", 2).await;
    let third = Etcdctl::start(server.address(), &["lock", "jobs/nightly", "--", "touch", &last.display().to_string()]);
    until_contenders(&keeper, "jobs/nightly", 3).await;
    let shown = keeper.contenders("jobs/nightly").await.expect("a look");
    let is_ours: Vec<_> = shown.iter().map(|contender| contender.ticket.is_some()).collect();
    assert_eq!(is_ours, [false, true, false]);
    let (named, _) = shown[0].id.as_str().split_once(':').expect("an identity");
    assert_eq!(Some(named), shown[0].session.as_deref(), "it is named by its lease");
    assert!(shown.windows(2).all(|pair| pair[0].token < pair[1].token), "{shown:?}");
    assert!(!waiting.is_finished());
    std::fs::write(&go, "").expect("written");
    first.end().await;
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    assert_eq!(Some(guard.fencing_token()), shown[1].token);
    assert!(!last.exists(), "we hold it");
    soon("the release", guard.release()).await.expect("it was held");
    third.end().await;
    assert!(last.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_of_etcdctl_and_one_of_ours_lead_one_after_the_other() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address());
    let election = keeper.election("leader").expect("a name");
    let leading = soon("our lead", election.campaign()).await.expect("no one leads");
    let theirs = Etcdctl::start(server.address(), &["elect", "leader", "theirs"]);
    until_contenders(&keeper, "leader", 2).await;
    assert_eq!(theirs.printed(), "", "we lead");
    soon("the end of our lead", leading.resign()).await.expect("it was held");
    let elected = async || theirs.printed().contains("theirs").then_some(());
    lockkeeper_faults::wait::until("their lead", crate::SOON, elected).await.expect("they lead");
    let again = keeper.election("leader").expect("a name");
    let campaigning = tokio::spawn(async move { again.campaign().await });
    until_contenders(&keeper, "leader", 2).await;
    assert!(!campaigning.is_finished(), "etcdctl leads");
    theirs.interrupt().await;
    let leading = soon("our lead", campaigning).await.expect("no panic").expect("they resigned");
    // A mutex of etcdctl looks like a candidate, to it and to us: the later one waits.
    let mutex = keeper.mutex("leader").expect("a name");
    assert!(soon("the look", mutex.try_lock()).await.expect("they look alike").is_none());
    assert_eq!(keeper.contenders("leader").await.expect("a look")[0].mode, Mode::Mutex);
    soon("the end of our lead", leading.resign()).await.expect("it was held");
}
