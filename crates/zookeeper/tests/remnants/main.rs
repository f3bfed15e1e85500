//! Remnants are removed again and again on a real server while clients come and go, Curator's and kazoo's among them.
//! No contender that lives is ever removed, and what was listed and dead is gone in the end.
//!
//! A thousand rounds in `cargo xtask test --long`, a tenth otherwise. The file is alone, since it plays long rounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Remnant, RemnantKind, Wait};
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_faults::{figures, long};
use lockkeeper_recipes::{Keeper, LockKind};
use lockkeeper_trials::Passers;
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};

/// How often all that is left is removed in the long run.
const ROUNDS: u32 = 1_000;

const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

fn keeper(address: SocketAddr) -> Keeper {
    let url = format!("zk://{address}").parse().expect("a URL");
    Keeper::new(Arc::new(ZooKeeperBackend::open(&url).expect("a good URL")))
}

async fn client(server: &Server) -> Client {
    let url = format!("zk://{}", server.address()).parse().expect("a URL");
    Client::connect(&Config::from_url(&url).expect("a good URL")).await.expect("a session")
}

/// Takes and leaves a lock of another client's make.
async fn come_and_go_as(mut peer: Peer, path: &'static str, stop: Arc<AtomicBool>) -> u64 {
    let mut holds = 0;
    while !stop.load(Ordering::SeqCst) {
        assert!(peer.lock(Kind::Mutex, path, SOON).await.expect("the lock"), "it is granted");
        let node = peer.node(Kind::Mutex, path).await.expect("its node");
        assert!(peer.exists(&node).await.expect("an answer"), "{node} was removed");
        peer.release(Kind::Mutex, path).await.expect("it was held all the time");
        holds += 1;
    }
    holds
}

/// Removes what is left; returns how much of it was removed.
async fn remove_all(keeper: &Keeper) -> (Vec<Remnant>, u64) {
    let found = soon("the remnants", keeper.admin().remnants(Duration::ZERO)).await.expect("they are listed");
    let mut removed = 0;
    for remnant in &found {
        removed +=
            u64::from(soon("a removal", keeper.admin().remove_remnant(remnant)).await.expect("it is removed or left"));
    }
    (found, removed)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_contender_that_lives_is_removed_while_clients_of_all_makes_come_and_go() {
    let name = "no_contender_that_lives_is_removed_while_clients_of_all_makes_come_and_go";
    if !zookeeper::availability().and(curator::availability).and(kazoo::availability).or_skip(name) {
        return;
    }
    let setup = Setup::new().entry("maxClientCnxns", "0");
    let server = Server::standalone(setup).await.expect("a server");
    let operator = client(&server).await;
    let standing = keeper(server.address());
    let held = standing.mutex("held").unwrap().lock().await.unwrap();
    assert!(standing.admin().freeze("frozen", LockKind::Mutex, "disks", Wait::Forever).await.unwrap().is_some());
    let mut still = [
        curator::start(&server.address().to_string(), SESSION_TIMEOUT).await.unwrap(),
        kazoo::start(&server.address().to_string(), SESSION_TIMEOUT).await.unwrap(),
    ];
    for (peer, path) in still.iter_mut().zip(["/lockkeeper/curators", "/lockkeeper/kazoos"]) {
        assert!(peer.lock(Kind::Mutex, path, SOON).await.unwrap());
    }

    let address = server.address();
    let mut passers = Passers::start(move || keeper(address));
    let peer = curator::start(&address.to_string(), SESSION_TIMEOUT).await.unwrap();
    passers.beside(|stop| come_and_go_as(peer, "/lockkeeper/busy-0", stop));
    let eve = keeper(server.address());
    let (mut removed, mut left) = (0, 0);
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        let dead = format!("/lockkeeper/dead-{round}");
        operator.create(NewNode::persistent(&dead)).await.unwrap();
        operator.create(NewNode::persistent(format!("{dead}/lock-0000000000"))).await.unwrap();
        let (found, some) = remove_all(&eve).await;
        assert!(
            found.iter().any(|it| it.kind == RemnantKind::Unbound && it.place.starts_with(&dead)),
            "what is dead is found: {found:?}"
        );
        let unbound = found.iter().filter(|it| it.kind == RemnantKind::Unbound);
        assert_eq!(unbound.count(), 1, "only that: {found:?}");
        assert!(operator.get_children(&dead).await.unwrap().0.is_empty(), "it is removed");
        removed += some;
        left += found.len() as u64 - some;
        passers.check();
    }
    let holds = passers.end().await;
    assert!(held.hold().is_held());
    for (peer, path) in still.iter_mut().zip(["/lockkeeper/curators", "/lockkeeper/kazoos"]) {
        assert_eq!(operator.get_children(path).await.unwrap().0.len(), 1, "{path}");
        peer.release(Kind::Mutex, path).await.unwrap();
    }
    assert_eq!(standing.contenders("frozen").await.unwrap().len(), 1);
    remove_all(&eve).await;
    let (found, _) = remove_all(&eve).await;
    assert!(found.is_empty(), "{found:?}");
    let mut stands = operator.get_children("/lockkeeper").await.unwrap().0;
    stands.sort_unstable();
    assert_eq!(stands, ["frozen", "held"]);
    figures::tell(&format!(
        "gc on ZooKeeper: {rounds} rounds, {holds} holds meanwhile and none lost, {removed} removed, {left} left to \
         newcomers"
    ));
}
