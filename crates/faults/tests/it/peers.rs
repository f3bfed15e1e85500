//! Each recipe of each real peer, once, beside another: what our tests may rely on when they put them into one queue
//! with Lockkeeper. Skips by name where a peer is missing.

use std::time::Duration;

use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, SharedCount, curator, go, kazoo};
use lockkeeper_faults::wait::{self, PATIENCE};
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_faults::{Availability, Result};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a wait goes on that must not succeed.
const IN_VAIN: Duration = Duration::from_millis(150);

/// Threads of each peer, and the turns of each thread.
const TURNS: (u32, u32) = (3, 40);
const TURNS_IN_ALL: u64 = 3 * 40;

/// A visit that lasts longer than a grant of a semaphore, so that holders that may meet do meet.
const LONG_STAY: Duration = Duration::from_millis(20);

/// Enough that two holders that do not exclude each other always meet.
const TURNS_APART: (u32, u32) = (2, 100);

async fn server(peers: impl FnOnce() -> Availability) -> Option<Server> {
    let setup = Setup::new().tick(Duration::from_millis(500));
    if peers().or_skip_here() { Server::start_or_skip(setup).await } else { None }
}

async fn two<F: Future<Output = Result<Peer>>>(server: &Server, start: impl Fn(String) -> F) -> (Peer, Peer) {
    let connect = server.address().to_string();
    let (one, other) = tokio::join!(start(connect.clone()), start(connect));
    (one.expect("a peer"), other.expect("a peer"))
}

async fn curator(connect: String) -> Result<Peer> {
    curator::start(&connect, SESSION_TIMEOUT).await
}

async fn kazoo(connect: String) -> Result<Peer> {
    kazoo::start(&connect, SESSION_TIMEOUT).await
}

async fn go(connect: String) -> Result<Peer> {
    go::start(&connect, SESSION_TIMEOUT).await
}

/// One holds, the other does not get it until it is released; nothing is left in the end.
async fn is_exclusive(kind: Kind, server: &Server, one: &mut Peer, other: &mut Peer) {
    let path = "/exclusive";
    assert_eq!(one.lock(kind, path, PATIENCE).await, Ok(true));
    let node = one.node(kind, path).await.expect("held");
    assert!(node.starts_with("/exclusive/"), "{node}");
    let names = other.participants(kind, path).await.expect("a list");
    assert_eq!(names, [node.rsplit('/').next().expect("a name")]);
    assert_eq!(other.try_lock(kind, path).await, Ok(false));
    assert_eq!(other.lock(kind, path, IN_VAIN).await, Ok(false));
    let (granted, ()) = tokio::join!(other.lock(kind, path, PATIENCE), async {
        let waiting = async || (server.ephemerals_under("/").await.ok()?.len() >= 2).then_some(());
        wait::until("the other waiting", PATIENCE, waiting).await.expect("in time");
        one.release(kind, path).await.expect("held");
    });
    assert_eq!(granted, Ok(true));
    other.release(kind, path).await.expect("held");
    assert_eq!(one.lock(kind, path, PATIENCE).await, Ok(true));
    one.release(kind, path).await.expect("held");
    assert!(one.release(kind, path).await.is_err(), "it is not held any more");
    assert_eq!(server.ephemerals_under("/").await, Ok(Vec::new()));
}

/// Both take turns in the order of their places, and no holder meets another.
async fn take_turns_alone(kind: Kind, one: &mut Peer, other: &mut Peer) {
    let ground = Ground::new().expect("a ground");
    let (first, second) = tokio::join!(
        one.take_turns(kind, "/turns", &ground, TURNS, PATIENCE),
        other.take_turns(kind, "/turns", &ground, TURNS, PATIENCE)
    );
    assert_eq!((first, second), (Ok(1), Ok(1)));
    assert_eq!(ground.faults(), Ok(Vec::new()));
    assert_eq!(ground.number(), Ok(2 * TURNS_IN_ALL));
    assert_eq!(ground.inside(), Ok(Vec::new()));
    assert_eq!(ground.grants().expect("grants").len() as u64, 2 * TURNS_IN_ALL);
    assert_eq!(ground.overtaken(), Ok(Vec::new()), "{kind:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_recipes_that_exclude_do_so() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    for kind in [Kind::Mutex, Kind::Write, Kind::LeaderLatch, Kind::LeaderSelector] {
        is_exclusive(kind, &server, &mut one, &mut other).await;
        take_turns_alone(kind, &mut one, &mut other).await;
    }
    let (kind, path) = (Kind::SemaphoreMutex, "/semaphore-mutex");
    assert_eq!(one.lock(kind, path, PATIENCE).await, Ok(true));
    assert!(one.node(kind, path).await.expect("held").starts_with("/semaphore-mutex/leases/"));
    assert_eq!(other.lock(kind, path, IN_VAIN).await, Ok(false));
    one.release(kind, path).await.expect("held");
    take_turns_alone(kind, &mut one, &mut other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_recipes_that_exclude_do_so() {
    let Some(server) = server(kazoo::availability).await else { return };
    let (mut one, mut other) = two(&server, kazoo).await;
    for kind in [Kind::Mutex, Kind::Write, Kind::MixedWrite, Kind::Election] {
        is_exclusive(kind, &server, &mut one, &mut other).await;
        take_turns_alone(kind, &mut one, &mut other).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn go_zookeeper_and_curator_stand_in_one_line() {
    let Some(server) = server(|| curator::availability().and(go::availability)).await else { return };
    let connect = server.address().to_string();
    let (one, other) = tokio::join!(go(connect.clone()), curator(connect));
    let (mut one, mut other, kind) = (one.expect("Go"), other.expect("Curator"), Kind::Mutex);
    is_exclusive(kind, &server, &mut one, &mut other).await;
    take_turns_alone(kind, &mut one, &mut other).await;
    // What it cannot: try, and stop waiting. Its node goes when its turn comes.
    assert_eq!(other.lock(kind, "/late", PATIENCE).await, Ok(true));
    assert!(one.try_lock(kind, "/late").await.is_err());
    assert_eq!(one.lock(kind, "/late", IN_VAIN).await, Ok(false));
    assert_eq!(server.ephemerals_under("/late").await.expect("dump").len(), 2);
    other.release(kind, "/late").await.expect("held");
    let gone = async || server.ephemerals_under("/late").await.ok()?.is_empty().then_some(());
    wait::until("its turn", PATIENCE, gone).await.expect("in time");
    assert!(one.lock(Kind::Read, "/late", PATIENCE).await.is_err(), "it has mutexes only");
}

/// Two read together, a writer waits for both; then all take turns.
async fn reads_together_and_writes_alone(read: Kind, write: Kind, one: &mut Peer, other: &mut Peer) {
    let path = "/read-write";
    assert_eq!(one.lock(read, path, PATIENCE).await, Ok(true));
    assert_eq!(other.try_lock(write, path).await, Ok(false));
    assert_eq!(other.lock(read, path, PATIENCE).await, Ok(true));
    assert_ne!(one.node(read, path).await, other.node(read, path).await);
    one.release(read, path).await.expect("held");
    assert_eq!(one.lock(write, path, IN_VAIN).await, Ok(false));
    other.release(read, path).await.expect("held");
    assert_eq!(one.lock(write, path, PATIENCE).await, Ok(true));
    assert_eq!(other.try_lock(read, path).await, Ok(false));
    one.release(write, path).await.expect("held");

    // Only readers: they always meet. Beside as many writers they may come in one by one, in their order.
    let readers_alone = Ground::with_stay(LONG_STAY).expect("a ground");
    let most = one.take_turns(read, path, &readers_alone, (3, 5), PATIENCE).await;
    assert!(most.expect("read") > 1, "readers meet readers");

    let ground = Ground::new().expect("a ground");
    let (readers, writers) = tokio::join!(
        one.take_turns(read, path, &ground, TURNS, PATIENCE),
        other.take_turns(write, path, &ground, TURNS, PATIENCE)
    );
    readers.expect("read");
    assert_eq!(writers, Ok(1));
    for ground in [&readers_alone, &ground] {
        assert_eq!(ground.faults(), Ok(Vec::new()));
    }
    assert_eq!(ground.number(), Ok(TURNS_IN_ALL));
    let reads = ground.grants().expect("grants").into_iter().filter(|grant| grant.mode == Mode::Read).count();
    assert_eq!(reads as u64, TURNS_IN_ALL);
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_readers_share_and_its_writers_do_not() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    reads_together_and_writes_alone(Kind::Read, Kind::Write, &mut one, &mut other).await;
    // Both sides belong to one lock: a writer may read, and goes on reading.
    assert_eq!(one.lock(Kind::Write, "/down", PATIENCE).await, Ok(true));
    assert_eq!(one.lock(Kind::Read, "/down", PATIENCE).await, Ok(true));
    one.release(Kind::Write, "/down").await.expect("held");
    assert_eq!(other.lock(Kind::Read, "/down", PATIENCE).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_readers_share_and_its_writers_do_not() {
    let Some(server) = server(kazoo::availability).await else { return };
    let (mut one, mut other) = two(&server, kazoo).await;
    reads_together_and_writes_alone(Kind::Read, Kind::Write, &mut one, &mut other).await;
    reads_together_and_writes_alone(Kind::MixedRead, Kind::MixedWrite, &mut one, &mut other).await;
}

/// kazoo that is told of Curator's names waits for Curator; Curator does not wait for it, and the ground shows it.
#[tokio::test(flavor = "multi_thread")]
async fn kazoo_waits_for_curators_readers_and_writers_and_they_do_not_wait_for_it() {
    let Some(server) = server(|| curator::availability().and(kazoo::availability)).await else { return };
    let connect = server.address().to_string();
    let (one, other) = tokio::join!(curator(connect.clone()), kazoo(connect));
    let (mut curator, mut kazoo, path) = (one.expect("Curator"), other.expect("kazoo"), "/mixed");
    assert_eq!(curator.lock(Kind::Read, path, PATIENCE).await, Ok(true));
    assert_eq!(kazoo.lock(Kind::MixedRead, path, PATIENCE).await, Ok(true));
    kazoo.release(Kind::MixedRead, path).await.expect("held");
    assert_eq!(kazoo.try_lock(Kind::MixedWrite, path).await, Ok(false));
    curator.release(Kind::Read, path).await.expect("held");
    assert_eq!(curator.lock(Kind::Write, path, PATIENCE).await, Ok(true));
    assert_eq!(kazoo.try_lock(Kind::MixedRead, path).await, Ok(false));
    curator.release(Kind::Write, path).await.expect("held");

    let ground = Ground::new().expect("a ground");
    let (first, second) = tokio::join!(
        curator.take_turns(Kind::Write, path, &ground, TURNS_APART, PATIENCE),
        kazoo.take_turns(Kind::MixedWrite, path, &ground, TURNS_APART, PATIENCE)
    );
    first.and(second).expect("both went on");
    assert!(!ground.faults().expect("faults").is_empty());
}

/// Two of three permits, then the third; and turns that fill it.
async fn gives_three_permits(kind: Kind, one: &mut Peer, other: &mut Peer) {
    let path = "/semaphore";
    assert_eq!(one.acquire(kind, path, 2, PATIENCE).await, Ok(true));
    assert_eq!(other.acquire(kind, path, 2, IN_VAIN).await, Ok(false));
    assert_eq!(other.lock(kind, path, PATIENCE).await, Ok(true));
    assert_eq!(one.try_lock(kind, path).await, Ok(false));
    let leases = one.participants(kind, path).await.expect("leases");
    assert_eq!(leases.len(), 3);
    let node = other.node(kind, path).await.expect("held");
    assert!(leases.iter().any(|lease| node.ends_with(lease)), "{node} in {leases:?}");
    other.release(kind, path).await.expect("held");
    assert_eq!(one.lock(kind, path, PATIENCE).await, Ok(true));
    one.give_back(kind, path, 3).await.expect("held");
    assert!(one.give_back(kind, path, 1).await.is_err(), "it holds none");
    assert_eq!(other.participants(kind, path).await, Ok(Vec::new()));

    let ground = Ground::with_stay(LONG_STAY).expect("a ground");
    let (first, second) = tokio::join!(
        one.take_turns(kind, path, &ground, TURNS, PATIENCE),
        other.take_turns(kind, path, &ground, TURNS, PATIENCE)
    );
    let most = first.expect("turns").max(second.expect("turns"));
    assert!((2..=3).contains(&most), "{most} at once");
    assert_eq!(ground.faults(), Ok(Vec::new()));
    assert_eq!(ground.grants().expect("grants").len() as u64, 2 * TURNS_IN_ALL);
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_semaphore_gives_as_many_as_it_or_a_shared_count_says() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    gives_three_permits(Kind::Semaphore { permits: 3 }, &mut one, &mut other).await;
    let (count, path) = ("/permits", "/semaphore");
    let kind = Kind::SharedSemaphore { count };
    one.set_shared_count(count, 3).await.expect("set");
    gives_three_permits(kind, &mut one, &mut other).await;
    one.set_shared_count(count, 1).await.expect("set");
    assert_eq!(one.lock(kind, path, PATIENCE).await, Ok(true));
    let (granted, raised) = tokio::join!(other.lock(kind, path, PATIENCE), async {
        let waiting = async || (server.ephemerals_under("/semaphore").await.ok()?.len() >= 2).then_some(());
        wait::until("the other waiting", PATIENCE, waiting).await.expect("in time");
        one.set_shared_count(count, 2).await
    });
    assert_eq!((granted, raised), (Ok(true), Ok(())), "raising the count lets another in");
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_semaphore_gives_as_many_as_it_says() {
    let Some(server) = server(kazoo::availability).await else { return };
    let (mut one, mut other) = two(&server, kazoo).await;
    gives_three_permits(Kind::Semaphore { permits: 3 }, &mut one, &mut other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_barriers_let_go_when_removed_and_when_all_have_come() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    assert_eq!(one.wait_on_barrier("/barrier", PATIENCE).await, Ok(true), "there is none");
    one.set_barrier("/barrier").await.expect("set");
    assert_eq!(other.wait_on_barrier("/barrier", IN_VAIN).await, Ok(false));
    let (passed, removed) = tokio::join!(other.wait_on_barrier("/barrier", PATIENCE), one.remove_barrier("/barrier"));
    assert_eq!((passed, removed), (Ok(true), Ok(())));

    assert!(one.leave_double_barrier("/double", PATIENCE).await.is_err(), "it has not entered");
    let both = tokio::join!(
        one.enter_double_barrier("/double", 2, PATIENCE),
        other.enter_double_barrier("/double", 2, PATIENCE)
    );
    assert_eq!(both, (Ok(true), Ok(true)));
    assert_eq!(server.ephemerals_under("/double").await.expect("dump").len(), 2);
    let both =
        tokio::join!(one.leave_double_barrier("/double", PATIENCE), other.leave_double_barrier("/double", PATIENCE));
    assert_eq!(both, (Ok(true), Ok(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_shared_count_is_set_unless_it_changed_and_tells_of_changes() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    let path = "/count";
    let first = one.shared_count(path).await.expect("made");
    assert_eq!(first.value, 0);
    assert_eq!(other.shared_count(path).await, Ok(first));
    assert_eq!(other.shared_count_changed(path, IN_VAIN).await, Ok(false));
    assert_eq!(one.try_set_shared_count(path, 5).await, Ok(true));
    assert_eq!(other.try_set_shared_count(path, 6).await, Ok(false), "it knows an older one");
    assert_eq!(other.shared_count_changed(path, PATIENCE).await, Ok(true));
    assert_eq!(other.shared_count(path).await, Ok(SharedCount { value: 5, version: first.version + 1 }));
    assert_eq!(other.try_set_shared_count(path, 6).await, Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_counts_what_a_peer_leaves_there() {
    let Some(server) = server(curator::availability).await else { return };
    let (mut one, mut other) = two(&server, curator).await;
    // Curator sets another watch in the background when it has connected.
    let both_watch = async || Some(server.watched().await.ok()?.len()).filter(|count| *count == 2);
    wait::until("both watching the configuration", PATIENCE, both_watch).await.expect("in time");
    let before = server.counts().await.expect("mntr");
    let path = "/counted";
    assert_eq!(one.lock(Kind::Mutex, path, PATIENCE).await, Ok(true));
    let node = one.node(Kind::Mutex, path).await.expect("held");
    let (granted, ()) = tokio::join!(other.lock(Kind::Mutex, path, PATIENCE), async {
        let watched = async || server.watched().await.ok()?.into_iter().find(|(path, _)| *path == node);
        wait::until("a watch on the holder", PATIENCE, watched).await.expect("in time");
        let counts = server.counts().await.expect("mntr");
        // The lock's own node, and two in line.
        assert_eq!((counts.nodes, counts.ephemerals), (before.nodes + 3, before.ephemerals + 2));
        assert_eq!(counts.watches, before.watches + 1);
        assert!(counts.packets.received > before.packets.received);
        assert_eq!(server.ephemerals_under(path).await.expect("dump").len(), 2);
        one.release(Kind::Mutex, path).await.expect("held");
    });
    assert_eq!(granted, Ok(true));
}

/// A Rust process and a peer's threads on one ground, under a lock that is free: each sees the other.
#[tokio::test(flavor = "multi_thread")]
async fn the_ground_shows_a_process_that_does_not_take_turns() {
    let Some(server) = server(curator::availability).await else { return };
    let mut peer = curator(server.address().to_string()).await.expect("Curator");
    let ground = Ground::new().expect("a ground");
    let inside = ground.enter(Mode::Read, "ours", "/turns/none").expect("entered");
    let most = peer.take_turns(Kind::Write, "/turns", &ground, (1, 5), PATIENCE).await;
    assert_eq!(most, Ok(2));
    assert_eq!(ground.faults().expect("faults").len(), 5);
    inside.leave().expect("left");
    assert_eq!(ground.faults().expect("faults").len(), 6, "the number was not the same");
    assert_eq!(ground.visit(Mode::Write, "ours", "/turns/none").await, Ok(1));
    assert_eq!(ground.number(), Ok(6));
    assert_eq!(ground.grants().expect("grants").len(), 7);
}
