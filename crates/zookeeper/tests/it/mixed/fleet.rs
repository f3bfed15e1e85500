//! One queue with real Curator, real kazoo and ours in it: all see the same.
//!
//! Which clients must be told of which: Curator and ours understand each other as they are. kazoo needs the keyword
//! `extra_lock_patterns=["-lock-"]`, unless all of ours use kazoo's layout. Curator and kazoo in one queue need the
//! keyword and a lock driver of Curator's that knows kazoo's names. `kinds` has them take turns.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::peers::{Kind, curator, kazoo};

use crate::support::Bench;

const PATH: &str = "/fleet/counter";

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_see_the_same_queue_in_the_same_order() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let party = bench.neighbour("");
    let mutex = party.keeper.mutex(PATH).unwrap();
    let kind = Kind::MixedMutex;
    let (mut first, mut looking_curator) = (bench.curator().await, bench.curator().await);
    let (mut second, mut looking_kazoo) = (bench.kazoo().await, bench.kazoo().await);
    assert!(first.try_lock(kind, PATH).await.unwrap());
    let contenders = async |count: usize| {
        let look = async || {
            let contenders = party.keeper.contenders(PATH).await.unwrap();
            (contenders.len() == count).then_some(contenders)
        };
        lockkeeper_faults::wait::until("the queue's length", SOON, look).await.unwrap()
    };
    let names = async |count| contenders(count).await.iter().map(|it| it.id.to_string()).collect::<Vec<_>>();
    assert!(first.node(kind, PATH).await.unwrap().ends_with(&names(1).await[0]));
    let ours = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await }
    });
    names(2).await;
    let (granted_to_kazoo, ()) = tokio::join!(second.lock(kind, PATH, SOON), async {
        let shown = contenders(3).await;
        assert!(shown.is_sorted_by(|one, next| one.token < next.token), "tokens grow with any holders in between");
        let seen = names(3).await;
        assert_eq!(looking_curator.participants(kind, PATH).await.unwrap(), seen);
        assert_eq!(looking_kazoo.participants(kind, PATH).await.unwrap(), seen);
        assert!(mutex.try_lock().await.unwrap().is_none());
        first.release(kind, PATH).await.unwrap();
        let guard = soon("our grant", ours).await.unwrap().unwrap();
        assert_eq!((guard.hold().contender().as_str(), shown[1].token), (&*seen[1], Some(guard.fencing_token())));
        assert_eq!(names(2).await, seen[1..]);
        guard.release().await.unwrap();
    });
    assert_eq!(granted_to_kazoo, Ok(true));
    second.release(kind, PATH).await.unwrap();
    names(0).await;
}
