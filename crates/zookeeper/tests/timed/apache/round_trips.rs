//! The cost of a lock: round trips over a slow link, and packets, by the server's and the proxy's account.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_conformance::{SOON, is_joined, soon};
use lockkeeper_faults::proxy::{Direction, Fate, FrameRecord, Operation};
use lockkeeper_faults::zookeeper::ServerWords;
use lockkeeper_faults::zookeeper::words::Packets;

use super::SERVER;
use crate::support::Bench;
use crate::turn;

/// There and back over the slow link: so long that what is sent in one go has passed before the first answer.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// How often each is tried: enough that a ping, or a busy moment of the machine, does not count.
const ROUNDS: u64 = 20;

/// What keeps sessions alive, whatever their clients do.
const UPKEEP: [Operation; 2] = [Operation::PING, Operation::MULTI];

fn median(mut of: Vec<usize>) -> usize {
    of.sort_unstable();
    of[of.len() / 2]
}

/// What clients asked for since the last look, without what keeps sessions alive, and in how many round trips.
fn asked(bench: &Bench) -> (BTreeMap<Operation, u64>, usize) {
    let mut counts = bench.proxy.counts(Direction::ToServer);
    counts.retain(|operation, _| !UPKEEP.contains(operation));
    let round_trips = round_trips(bench.proxy.log());
    bench.proxy.forget();
    (counts, round_trips)
}

/// How many round trips the longest chain of requests took, each of which was sent when the one before was answered.
fn round_trips(mut log: Vec<FrameRecord>) -> usize {
    log.retain(|frame| !UPKEEP.contains(&frame.operation));
    log.sort_by_key(|frame| frame.seen);
    let (requests, answers): (Vec<_>, Vec<_>) =
        log.into_iter().partition(|frame| frame.direction == Direction::ToServer);
    let answered_at = |request: &FrameRecord| match answers.iter().find(|answer| answer.xid == request.xid)?.fate {
        Fate::Delivered(at) => Some(at),
        Fate::Lost => None,
    };
    let mut chains: Vec<(Option<Duration>, usize)> = Vec::new();
    for request in &requests {
        let is_before = |answered_at: Option<Duration>| answered_at.is_some_and(|at| at <= request.seen);
        let before = chains.iter().filter(|(answered_at, _)| is_before(*answered_at)).map(|(_, length)| *length);
        chains.push((answered_at(request), 1 + before.max().unwrap_or(0)));
    }
    chains.into_iter().map(|(_, length)| length).max().unwrap_or(0)
}

/// The packets so far, by the server's account.
async fn packets(bench: &Bench) -> Packets {
    ServerWords::new(bench.server.address()).packets().await.unwrap()
}

#[tokio::test]
async fn a_warm_lock_costs_one_round_trip_and_three_packets() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.party("?tick=2s");
    let mutex = ann.keeper.mutex("reports").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    bench.proxy.set_delay(ROUND_TRIP / 2);
    bench.proxy.forget();
    let upkeep = || UPKEEP.map(|operation| bench.proxy.count(Direction::ToServer, operation)).iter().sum::<u64>();
    let before = packets(&bench).await;
    let (mut locks, mut releases, mut kept_up) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let guard = mutex.lock().await.unwrap();
        kept_up += upkeep();
        let (counts, round_trips) = asked(&bench);
        assert_eq!(counts, [(Operation::CREATE2, 1), (Operation::GET_CHILDREN, 1)].into());
        locks.push(round_trips);
        guard.release().await.unwrap();
        kept_up += upkeep();
        let (counts, round_trips) = asked(&bench);
        assert_eq!(counts, [(Operation::DELETE, 1)].into());
        releases.push(round_trips);
    }
    let after = packets(&bench).await;
    kept_up += upkeep();
    assert_eq!((median(locks), median(releases)), (1, 1), "round trips of a lock, and of a release");
    // The last of the two looks counts itself. A ping can be under way at either look.
    let asked = 3 * ROUNDS + 1;
    let received = after.received - before.received;
    let expected = asked + kept_up.saturating_sub(1)..=asked + kept_up + 1;
    assert!(expected.contains(&received), "{received} of {expected:?} packets");
}

#[tokio::test]
async fn a_first_lock_costs_one_round_trip_beside_the_session() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.party("?tick=2s");
    // The session is there, and neither the queue's node nor its parent.
    assert!(ann.keeper.mutex("other").unwrap().try_lock().await.unwrap().is_some());
    bench.proxy.set_delay(ROUND_TRIP / 2);
    let mut firsts = Vec::new();
    for number in 0..ROUNDS {
        let mutex = ann.keeper.mutex(&format!("reports/{number}")).unwrap();
        bench.proxy.forget();
        let guard = mutex.lock().await.unwrap();
        firsts.push(asked(&bench).1);
        guard.release().await.unwrap();
    }
    assert_eq!(median(firsts), 1);
}

#[tokio::test]
async fn a_failed_try_costs_one_round_trip_and_no_write() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (bench.party("?tick=2s"), bench.neighbour(""));
    let held = bob.keeper.mutex("reports").unwrap().lock().await.unwrap();
    let mutex = ann.keeper.mutex("reports").unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    bench.proxy.set_delay(ROUND_TRIP / 2);
    bench.proxy.forget();
    let mut tries = Vec::new();
    for _ in 0..ROUNDS {
        assert!(mutex.try_lock().await.unwrap().is_none());
        assert_eq!(bench.proxy.count(Direction::ToServer, Operation::MULTI), 0, "nothing of ours stands in a queue");
        let (counts, round_trips) = asked(&bench);
        assert_eq!(counts, [(Operation::SYNC, 1), (Operation::GET_CHILDREN, 1)].into());
        tries.push(round_trips);
    }
    assert_eq!(median(tries), 1);
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
    assert_eq!(asked(&bench).0, BTreeMap::new());
    guard.release().await.unwrap();
    assert_eq!(asked(&bench).0, [(Operation::DELETE, 1)].into());
}
