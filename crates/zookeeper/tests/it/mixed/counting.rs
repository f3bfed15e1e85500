//! One queue with real Curator and real kazoo in it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::peers::{Kind, curator, kazoo};
use lockkeeper_recipes::Keeper;

use crate::support::server::can_run;
use crate::support::{Bench, Make};

/// The lock that all share: a name that starts with a slash is a node's path.
const PATH: &str = "/fleet/counter";

/// How often each takes the lock.
const ROUNDS: u32 = 40;

const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the counting may take: there are no long waits in it, but a slow machine.
const COUNTING_TIME_MAX: Duration = Duration::from_secs(300);

/// Counts a file up under the lock, in a way that two at once lose an increment.
async fn count(keeper: &Keeper, file: &Path) {
    let mutex = keeper.mutex(PATH).unwrap();
    for _ in 0..ROUNDS {
        let guard = mutex.lock().await.unwrap();
        let counted: u32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        fs::write(file, (counted + 1).to_string()).unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn curator_kazoo_and_ours_count_together() {
    if !can_run(curator::availability().and(kazoo::availability)) {
        return;
    }
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "0").unwrap();
    let address = bench.servers();
    let mut curator = curator::start(&address, PEER_SESSION_TIMEOUT).await.unwrap();
    let mut kazoo = kazoo::start(&address, PEER_SESSION_TIMEOUT).await.unwrap();
    let (ann, bob) = (bench.party(""), bench.neighbour(""));
    let (by_curator, by_kazoo, (), ()) = tokio::join!(
        curator.count(Kind::MixedMutex, PATH, file.path(), ROUNDS, COUNTING_TIME_MAX),
        kazoo.count(Kind::MixedMutex, PATH, file.path(), ROUNDS, COUNTING_TIME_MAX),
        count(&ann.keeper, file.path()),
        count(&bob.keeper, file.path()),
    );
    by_curator.unwrap();
    by_kazoo.unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap().trim(), (4 * ROUNDS).to_string());
}

#[tokio::test]
async fn curator_as_it_comes_and_ours_exclude_each_other() {
    if !can_run(curator::availability()) {
        return;
    }
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let ann = bench.party("");
    let mutex = ann.keeper.mutex(PATH).unwrap();
    let mut curator = curator::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap();
    let guard = soon("our grant", mutex.lock()).await.unwrap();
    assert!(!curator.try_lock(Kind::Mutex, PATH).await.unwrap(), "we hold it");
    guard.release().await.unwrap();
    assert!(curator.lock(Kind::Mutex, PATH, SOON).await.unwrap());
    assert!(mutex.try_lock().await.unwrap().is_none(), "Curator holds it");
    let shown = ann.keeper.contenders(PATH).await.unwrap();
    assert!(curator.node(Kind::Mutex, PATH).await.unwrap().ends_with(shown[0].id.as_str()));
    curator.release(Kind::Mutex, PATH).await.unwrap();
    soon("our grant", mutex.lock()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_request_of_curators_revoker_is_seen_and_costs_no_place() {
    use lockkeeper_faults::proxy::{Direction, Operation};

    if !can_run(curator::availability()) {
        return;
    }
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let ann = bench.party("");
    let guard = ann.keeper.mutex(PATH).unwrap().lock().await.unwrap();
    let mut curator = curator::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap();
    curator.revoke(&format!("{PATH}/{}", guard.hold().contender())).await.unwrap();
    // Told by the watch on our own node, and then read.
    let seen = async || (bench.proxy.count(Direction::ToClient, Operation::GET_DATA) >= 2).then_some(());
    lockkeeper_faults::wait::until("the look at the request", SOON, seen).await.unwrap();
    assert!(guard.hold().is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn kazoo_told_of_our_names_and_ours_exclude_each_other_in_both_layouts() {
    if !can_run(kazoo::availability()) {
        return;
    }
    let Some(bench) = Bench::start(Make::Apache).await else { return };
    let mut kazoo = kazoo::start(&bench.servers(), PEER_SESSION_TIMEOUT).await.unwrap();
    for (settings, kind) in [("", Kind::MixedMutex), ("?layout=kazoo", Kind::Mutex)] {
        let ann = bench.party(settings);
        let mutex = ann.keeper.mutex(PATH).unwrap();
        let guard = soon("our grant", mutex.lock()).await.unwrap();
        assert!(!kazoo.try_lock(kind, PATH).await.unwrap(), "we hold it: {settings}");
        guard.release().await.unwrap();
        assert!(kazoo.lock(kind, PATH, SOON).await.unwrap(), "{settings}");
        assert!(mutex.try_lock().await.unwrap().is_none(), "kazoo holds it: {settings}");
        kazoo.release(kind, PATH).await.unwrap();
    }
}
