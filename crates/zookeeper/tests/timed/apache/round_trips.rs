//! What a lock costs: round trips over a slow link, and packets by the server's and the proxy's account.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockkeeper_conformance::{SOON, is_joined, soon};
use lockkeeper_faults::proxy::{Direction, Operation};
use lockkeeper_faults::zookeeper::ServerWords;
use lockkeeper_faults::zookeeper::words::Packets;
use lockkeeper_zookeeper::{Client, NewNode};

use super::SERVER;
use crate::support::Bench;
use crate::support::way::config;
use crate::turn;

/// There and back over the slow link.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Returns how long it took, in nominal round trips.
#[expect(clippy::disallowed_methods, reason = "a test measures how long a call takes")]
async fn timed<T>(future: impl Future<Output = T>) -> (T, f64) {
    let start = Instant::now();
    let output = future.await;
    (output, start.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64())
}

/// A bare write over the same link: one round trip, as long as one takes on this machine at this moment.
struct Control(Client);

impl Control {
    const NODE: &str = "/control";

    async fn over(bench: &Bench) -> Self {
        let client = Client::connect(&config(bench.proxy.address(), "")).await.unwrap();
        client.create(NewNode::persistent(Self::NODE)).await.unwrap();
        Self(client)
    }

    async fn round_trip(&self) -> f64 {
        let (written, took) = timed(self.0.set_data(Self::NODE, &b"x"[..], None)).await;
        written.unwrap();
        took
    }
}

/// How often a warm lock is taken: enough that a busy moment of the machine does not count.
const ROUNDS: u64 = 20;

/// How many clients are connected while packets are counted.
const CLIENTS: u64 = 2;

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// What clients asked for since the last look, without what keeps sessions alive.
fn asked(bench: &Bench) -> BTreeMap<Operation, u64> {
    let mut counts = bench.proxy.counts(Direction::ToServer);
    counts.remove(&Operation::PING);
    counts.remove(&Operation::MULTI);
    bench.proxy.forget();
    counts
}

/// The packets so far, by the server's account.
async fn packets(bench: &Bench) -> Packets {
    ServerWords::new(bench.server.address()).packets().await.unwrap()
}

fn counts<const N: usize>(of: [(Operation, u64); N]) -> BTreeMap<Operation, u64> {
    of.into()
}

#[tokio::test]
async fn a_warm_lock_costs_one_round_trip_and_three_packets() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.party("?tick=2s");
    let mutex = ann.keeper.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let control = Control::over(&bench).await;
    bench.proxy.set_delay(ROUND_TRIP / 2);
    bench.proxy.forget();
    let before = packets(&bench).await;
    let (mut controls, mut locks, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        controls.push(control.round_trip().await);
        let (guard, locking) = timed(mutex.lock()).await;
        let (released, releasing) = timed(guard.unwrap().release()).await;
        released.unwrap();
        locks.push(locking);
        both.push(locking + releasing);
    }
    let after = packets(&bench).await;
    let round_trip = median(controls);
    let (lock, lock_and_release) = (median(locks) / round_trip, median(both) / round_trip);
    eprintln!("lock: {lock:.2} round trips; lock and release: {lock_and_release:.2}; median of {ROUNDS}");
    assert!(lock < 1.5 && lock_and_release < 2.5, "{lock} {lock_and_release}");
    let upkeep = bench.proxy.count(Direction::ToServer, Operation::PING)
        + bench.proxy.count(Direction::ToServer, Operation::MULTI);
    let ours = [Operation::CREATE2, Operation::GET_CHILDREN, Operation::DELETE];
    let expected = [ours[0], ours[1], ours[2], Operation::SET_DATA].map(|operation| (operation, ROUNDS));
    assert_eq!(asked(&bench), counts(expected));
    // The last of the two looks counts itself. A ping of each client can be under way at either look.
    let asked = (ours.len() as u64 + 1) * ROUNDS + 1;
    let received = after.received - before.received;
    let expected = asked + upkeep.saturating_sub(CLIENTS)..=asked + upkeep + CLIENTS;
    assert!(expected.contains(&received), "{received} of {expected:?} packets");
}

#[tokio::test]
async fn a_first_lock_costs_one_round_trip_beside_the_session() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.party("?tick=2s");
    // The session is there, and neither the queue's node nor its parent.
    assert!(ann.keeper.mutex("other").unwrap().try_lock().await.unwrap().is_some());
    let control = Control::over(&bench).await;
    bench.proxy.set_delay(ROUND_TRIP / 2);
    let (mut controls, mut firsts) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        controls.push(control.round_trip().await);
        let mutex = ann.keeper.mutex(&format!("reports/{number}")).unwrap();
        let (guard, round_trips) = timed(mutex.lock()).await;
        guard.unwrap().release().await.unwrap();
        firsts.push(round_trips);
    }
    let first = median(firsts) / median(controls);
    assert!(first < 1.5, "{first}");
}

#[tokio::test]
async fn a_failed_try_costs_one_round_trip_and_no_write() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (bench.party("?tick=2s"), bench.neighbour(""));
    let held = bob.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let mutex = ann.keeper.mutex("reports").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let control = Control::over(&bench).await;
    bench.proxy.set_delay(ROUND_TRIP / 2);
    bench.proxy.forget();
    let (mut controls, mut tries) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        controls.push(control.round_trip().await);
        let (busy, trying) = timed(mutex.try_lock()).await;
        assert!(busy.unwrap().is_none());
        tries.push(trying);
    }
    let round_trips = median(tries) / median(controls);
    eprintln!("a failed try: {round_trips:.2} round trips; median of {ROUNDS}");
    assert!(round_trips < 1.5, "{round_trips}");
    assert_eq!(bench.proxy.count(Direction::ToServer, Operation::MULTI), 0, "nothing of ours stands in a queue");
    let ours = [Operation::SYNC, Operation::GET_CHILDREN, Operation::SET_DATA];
    assert_eq!(asked(&bench), counts(ours.map(|operation| (operation, ROUNDS))));
    drop(held);
}

#[tokio::test]
async fn a_hand_off_costs_one_notification_and_no_list() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (bench.party("?tick=2s"), bench.neighbour(""));
    let held = bob.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let mutex = ann.keeper.mutex("reports").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    ann.journal.until_count("a join", 1, is_joined).await;
    // Both watches, on the one ahead and on our own node, are answered for.
    let watched = || (bench.proxy.count(Direction::ToClient, Operation::GET_DATA) == 2).then_some(());
    lockkeeper_faults::wait::until("both watches", SOON, async || watched()).await.unwrap();
    bench.proxy.forget();
    held.release().await.unwrap();
    let guard = soon("the grant", waiting).await.unwrap().unwrap();
    assert_eq!(asked(&bench), BTreeMap::new());
    guard.release().await.unwrap();
    assert_eq!(asked(&bench), counts([(Operation::DELETE, 1)]));
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_no_watch_at_the_server() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (bench.party(""), bench.neighbour(""));
    let held = bob.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let mutex = ann.keeper.mutex("reports").unwrap();
    assert!(mutex.lock_timeout(Duration::from_millis(200)).await.unwrap().is_none());
    bench.until_ephemerals(1).await;
    // The holder's own, and no other.
    let watches = async || (bench.server.watches().await <= 1).then_some(());
    lockkeeper_faults::wait::until("the end of the watches", SOON, watches).await.unwrap();
    drop(held);
}
