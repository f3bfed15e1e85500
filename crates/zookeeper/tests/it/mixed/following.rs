//! A follower's reports of queues with real contenders of Curator and kazoo.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{SOON, until};
use lockkeeper_core::{Answers, Backend as _, Mode, QueueName, Scope};
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::task::JoinHandle;

use crate::follows::Following;
use crate::support::Bench;
use crate::support::waist::line;
use crate::support::way::url;

const DOOR: &str = "/lockkeeper/door";

const POOL: Kind = Kind::Semaphore { permits: 2 };

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_tells_of_curators_and_kazoos_contenders_as_looks_show_them() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let (mut curator, mut kazoo) = (bench.curator().await, bench.kazoo().await);
    for settings in ["", "?layout=kazoo"] {
        let ann = bench.neighbouring_waist(settings).await;
        let onlooker = Arc::new(ZooKeeperBackend::open(&url(bench.servers(), settings)).unwrap());
        let mut following =
            Following::begin(onlooker.clone(), Scope::default().with(line("/fleet/read")).with(line("/fleet/kazoos")))
                .await;
        assert!(curator.lock(Kind::Mutex, DOOR, SOON).await.unwrap());
        ann.take(&line("door"), Mode::Mutex).await;
        following.until_equal().await;
        assert_eq!(following.picture.locks()[&line("door")][0].answers, Answers::Unknown);
        assert!(!kazoo.try_lock(Kind::MixedMutex, DOOR).await.unwrap());
        assert!(kazoo.lock(Kind::Read, "/fleet/read", SOON).await.unwrap());
        assert!(curator.lock(Kind::Write, "/lockkeeper/write", SOON).await.unwrap());
        assert!(curator.lock(Kind::Read, "/lockkeeper/write", SOON).await.unwrap(), "within its write lock");
        assert!(curator.acquire(POOL, "/lockkeeper/pool", 2, SOON).await.unwrap());
        assert!(!curator.acquire(POOL, "/lockkeeper/pool", 1, Duration::ZERO).await.unwrap());
        let gates = kazoos_gates(&bench, &mut kazoo).await;
        for lock in ["kazoos", "/fleet/kazoos"].map(line) {
            until_kazoos_semaphore_is_shown(&onlooker, &lock).await;
        }
        assert!(following.until_equal().await >= 7, "{settings}");
        curator.revoke(&node_of_ours(&following)).await.unwrap();
        following.until_equal().await;
        kazoo.release(Kind::Read, "/fleet/read").await.unwrap();
        for (path, waiting) in gates {
            kazoo.give_back(POOL, path, 2).await.unwrap();
            let mut waiter = waiting.await.unwrap();
            waiter.give_back(POOL, path, 1).await.unwrap();
        }
        curator.give_back(POOL, "/lockkeeper/pool", 2).await.unwrap();
        curator.release(Kind::Read, "/lockkeeper/write").await.unwrap();
        curator.release(Kind::Write, "/lockkeeper/write").await.unwrap();
        curator.release(Kind::Mutex, DOOR).await.unwrap();
        assert_eq!(following.until_equal().await, 1, "{settings}");
        ann.session.close().await.unwrap();
        assert_eq!(following.until_equal().await, 0, "{settings}");
    }
}

/// Has kazoo hold all permits of a semaphore below the base and of one at a path, and another kazoo wait at each.
async fn kazoos_gates(bench: &Bench, holder: &mut Peer) -> Vec<(&'static str, JoinHandle<Peer>)> {
    let mut gates = Vec::new();
    for path in ["/lockkeeper/kazoos", "/fleet/kazoos"] {
        assert!(holder.acquire(POOL, path, 2, SOON).await.unwrap());
        let mut waiter = bench.kazoo().await;
        let waiting = async move {
            assert!(waiter.acquire(POOL, path, 1, 2 * SOON).await.unwrap());
            waiter
        };
        gates.push((path, tokio::spawn(waiting)));
    }
    gates
}

/// Waits until looks show two permits of kazoo's, and one that waits for them.
async fn until_kazoos_semaphore_is_shown(onlooker: &ZooKeeperBackend, lock: &QueueName) {
    let is_shown = async || {
        let shown = onlooker.admin().inspect(lock).await.unwrap();
        shown.iter().map(|info| info.mode).eq([Mode::Permit, Mode::Permit, Mode::Acquire])
            && shown.iter().all(|info| info.label.is_some() && info.answers == Answers::No)
    };
    until("kazoo's permits and its waiter", is_shown).await;
}

/// The path of our own contender's node.
fn node_of_ours(following: &Following) -> String {
    let door = &following.picture.locks()[&line("door")];
    let ours = door.iter().find(|info| info.answers == Answers::Yes).expect("ours stands there");
    format!("{DOOR}/{}", ours.id)
}
