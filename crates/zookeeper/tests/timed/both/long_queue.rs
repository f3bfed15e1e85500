//! Long queues: a list longer than what a server takes in one request, many clients that join or look at once, and the
//! proof that goes before all of them.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockkeeper_conformance::{is_joined, soon, until};
use lockkeeper_core::{Extent, Freshness, Liveness, LivenessAt, Mode};
use lockkeeper_faults::proxy::{Direction, Flow, Operation};
use lockkeeper_zookeeper::NewNode;

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::{entry, line};
use crate::turn;

/// This many names of Curator's form take more than a mebibyte.
const WAITERS: usize = 20_000;

/// How many are made at once: far from what a session may queue.
const AT_ONCE: usize = 500;

#[tokio::test]
async fn a_queue_of_twenty_thousand_is_listed_and_joined() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
    for batch in 0..WAITERS / AT_ONCE {
        let name = |number: usize| {
            let uuid = format!("{:08x}-0000-0000-0000-000000000000", batch * AT_ONCE + number);
            NewNode::ephemeral_sequential(format!("/lockkeeper/door/_c_{uuid}-lock-"))
        };
        let making: Vec<_> = (0..AT_ONCE).map(|number| operator.create(name(number))).collect();
        for made in making {
            soon("a node", made).await.unwrap();
        }
    }
    let view = ann.view(&line("door")).await;
    assert_eq!(view.contenders.len(), 1 + WAITERS);
    assert_eq!(view.contenders[0].ticket, Some(ticket));
    let (_, last) = ann.take(&line("door"), Mode::Mutex).await;
    assert_eq!(last.view.contenders[1 + WAITERS].id, last.id);
    let names: usize = view.contenders.iter().map(|contender| contender.id.as_str().len() + 4).sum();
    assert!(names > 1 << 20, "{names}");
}

/// How many join or look at once.
const CALLS: usize = 1_000;

/// How many lists they share at most: the first is shared by 64, and each by twice as many as the one before.
const LISTS_MAX: u64 = 5;

/// How many half of them share: 64, 128, 256, and the rest.
const LISTS_OF_HALF: u64 = 4;

#[tokio::test]
async fn joins_under_way_share_a_list_and_stand_in_the_order_of_their_calls() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.waist("").await;
    let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
    ann.leave(&line("door"), ticket).await;
    bench.proxy.forget();
    let mut joining: Vec<_> = (0..CALLS).map(|_| ann.session.enqueue_one(&line("door"), entry(Mode::Mutex))).collect();
    // A join that is polled once and never again keeps no other join from the answer.
    let mut stalled = joining.remove(1);
    assert!(poll_fn(|context| Poll::Ready(stalled.as_mut().poll(context).is_pending())).await);
    let mut last_token = None;
    for (number, join) in joining.into_iter().enumerate() {
        let joined = soon("a place", join).await.unwrap();
        assert!(Some(joined.token) > last_token, "join {number}");
        last_token = Some(joined.token);
        let ahead = number + usize::from(number > 0);
        assert_eq!(joined.view.position(&joined.id), Some(ahead), "its own view shows all that joined before");
    }
    let joined = soon("the place of the one that was not polled", stalled).await.unwrap();
    assert_eq!(joined.view.position(&joined.id), Some(1));
    let lists = bench.proxy.count(Direction::ToServer, Operation::GET_CHILDREN);
    assert!((1..=LISTS_MAX).contains(&lists), "{lists} lists for {CALLS} joins");
}

#[tokio::test]
async fn looks_under_way_share_a_list_that_shows_all_that_was_there_before_each() {
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let (ann, bob) = (bench.waist("").await, bench.neighbouring_waist("").await);
    ann.view(&line("door")).await;
    bench.proxy.forget();
    let lists = || bench.proxy.count(Direction::ToServer, Operation::GET_CHILDREN);
    let looks = || {
        (0..CALLS / 2).map(|_| ann.session.view(&line("door"), Freshness::Latest, Extent::Whole)).collect::<Vec<_>>()
    };
    bench.proxy.set_flow(Direction::ToClient, Flow::Hold);
    let before = looks();
    until("the first lists", async || lists() == LISTS_OF_HALF).await;
    // The lists of the looks before it are under way, and show it or not. Those of the looks after it must.
    let (_, joined) = bob.take(&line("door"), Mode::Mutex).await;
    let after = looks();
    bench.proxy.set_flow(Direction::ToClient, Flow::Pass);
    for look in after {
        let shown = soon("a look", look).await.unwrap();
        assert_eq!(shown.contenders.first().map(|first| &first.id), Some(&joined.id));
    }
    for look in before {
        soon("a look", look).await.unwrap();
    }
    assert!(lists() <= LISTS_MAX, "{} lists for {CALLS} looks", lists());
}

#[tokio::test]
async fn a_proof_is_written_before_all_that_is_not_written_yet() {
    const READS: usize = 3_000;
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    // A holder proves its session each second and a half, and the reads take twice that; more on a busy machine.
    let ann = bench.waist("?session_timeout=9s&tick=2s&operation_timeout=60s").await;
    let (_, held) = ann.take(&line("door"), Mode::Mutex).await;
    bench.proxy.set_delay(Duration::from_millis(60));
    bench.proxy.forget();
    let reads: Vec<_> = (0..READS).map(|_| ann.session.values().get(&line("door"))).collect();
    for read in reads {
        soon("a value", read).await.unwrap();
    }
    let log = bench.proxy.log();
    let sent = || log.iter().filter(|frame| frame.direction == Direction::ToServer);
    let proof = sent().position(|frame| frame.operation == Operation::MULTI).expect("a proof");
    let before = sent().take(proof).filter(|frame| frame.operation == Operation::GET_DATA).count();
    assert!(before < READS, "the proof came behind all {READS} reads");
    assert!(matches!(held.standing.liveness(LivenessAt::Now), Liveness::Held { .. }));
}

#[tokio::test]
async fn after_a_reconnection_a_crowd_shares_its_looks_and_is_served_in_order() {
    const WAITERS: usize = 300;
    /// Some wake while a list is on its way already.
    const LOOKS_MAX: u64 = 30;
    let _turn = turn().await;
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let ann = bench.party("");
    let mutex = ann.keeper.mutex("door").unwrap();
    let holder = mutex.lock().await.unwrap();
    let grants = Arc::new(Mutex::new(Vec::new()));
    let waiter = |_| {
        let (mutex, grants) = (mutex.clone(), grants.clone());
        tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            grants.lock().unwrap().push(guard.fencing_token());
            guard.release().await.unwrap();
        })
    };
    let waiters: Vec<_> = (0..WAITERS).map(waiter).collect();
    ann.journal.until_count("the joins", 1 + WAITERS, is_joined).await;
    let watching = || bench.proxy.count(Direction::ToClient, Operation::GET_DATA);
    until("all watches", async || watching() >= WAITERS as u64).await;
    bench.proxy.forget();
    bench.proxy.cut();
    let looks = || bench.proxy.count(Direction::ToServer, Operation::GET_CHILDREN);
    until("a look", async || looks() > 0).await;
    holder.release().await.unwrap();
    for waiter in waiters {
        soon("a grant", waiter).await.unwrap();
    }
    assert!(looks() <= LOOKS_MAX, "{} looks of {WAITERS} waiters", looks());
    assert!(grants.lock().unwrap().is_sorted_by(|one, next| one < next), "in the order of the queue");
}
