//! Waiting for a limited time.

use std::pin::pin;
use std::time::Duration;

use lockkeeper_core::Advice;
use lockkeeper_recipes::MutexGuard;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::lateness::{Measured, measured};
use crate::party::{Party, granted, release};
use crate::waiting::soon;

/// How much later than a thread that only sleeps a timeout may end.
const LATE_MAX: Duration = Duration::from_millis(50);

const TIMEOUT: Duration = Duration::from_millis(150);

/// A timeout is measured this often and its median counts: on a machine with other work to do a single one can be late
/// without any fault of ours.
const ROUNDS: usize = 5;

/// How many rounds are played at most until [`ROUNDS`] of them count. On a busy machine a waiter may join only after
/// its time is up, and then it was not cut off while it waited; the next one has twice the time.
pub(super) const PLAYED_MAX: usize = 14;

/// How many holders follow one another while the timeout runs, and for how long each holds but the last.
const CHANGES: usize = 40;
const HOLD: Duration = Duration::from_millis(10);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a timeout is met within 50 ms", met),
        Case::new("a timeout is met while the holder changes", met_while_the_holder_changes).strict(),
        Case::new("a timeout is met while the service stands still", met_while_paused)
            .given_back()
            .needs(&[FaultKind::Pause]),
        Case::new("a timeout is met while the connection is cut", met_while_cut).given_back().needs(&[FaultKind::Cut]),
        Case::new("a timeout is met by a waiter that is then cut off", met_by_a_waiter_cut_off)
            .needs(&[FaultKind::Cut]),
        Case::new("a timeout of zero is try_lock", zero_is_try_lock).given_back(),
        Case::new("a lock that comes free in time is granted", granted_in_time),
        Case::new("a waiter whose time is up makes way for those behind it", makes_way),
    ]
}

/// Measures one `lock_timeout` that must not be granted; only transient errors are accepted.
async fn measure(fixture: &dyn Fixture, party: &Party, timeout: Duration) -> Measured {
    let (outcome, wait) = measured(fixture, timeout, party.mutex("door").lock_timeout(timeout)).await;
    match outcome {
        Ok(None) => {}
        Ok(Some(_)) => panic!("the lock was granted, though another held it or the service did not answer"),
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    assert!(wait.took >= timeout, "the time was up after {:?} already", wait.took);
    wait
}

fn assert_met(mut waits: Vec<Measured>) {
    waits.sort();
    let late = waits[waits.len() / 2].late;
    assert!(late <= LATE_MAX, "late by {late:?}; all: {waits:?}");
}

async fn met(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        waits.push(measure(fixture, &bob, TIMEOUT).await);
        ann.until_contenders("door", 1).await;
    }
    assert_met(waits);
    release(guard).await;
}

async fn met_while_the_holder_changes(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        let first = ann.lock("door").await;
        let mut holders = Vec::new();
        for _ in 1..CHANGES {
            let waiting = ann.queue_up("door").await;
            holders.push(tokio::spawn(async move { hold_for_a_while(granted(waiting).await).await }));
        }
        // However late the machine makes the end of the time, another one holds the lock until then.
        let last = ann.queue_up("door").await;
        let relay = tokio::spawn(hold_for_a_while(first));
        waits.push(measure(fixture, &bob, TIMEOUT).await);
        relay.await.expect("the task does not panic");
        for holder in holders {
            soon("the holders' end", holder).await.expect("the task does not panic");
        }
        release(granted(last).await).await;
    }
    assert_met(waits);
}

async fn hold_for_a_while(guard: MutexGuard) {
    tokio::time::sleep(HOLD).await;
    release(guard).await;
}

async fn met_while_paused(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    release(ann.lock("door").await).await;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        ann.inflict(Fault::Pause).await;
        waits.push(measure(fixture, &ann, TIMEOUT).await);
        ann.inflict(Fault::Resume).await;
        ann.until_contenders("door", 0).await;
    }
    assert_met(waits);
}

async fn met_while_cut(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let mut waits = Vec::new();
    for _ in 0..ROUNDS {
        release(ann.lock("door").await).await;
        ann.inflict(Fault::Cut).await;
        waits.push(measure(fixture, &ann, TIMEOUT).await);
        ann.inflict(Fault::Heal).await;
        ann.until_contenders("door", 0).await;
    }
    assert_met(waits);
}

async fn met_by_a_waiter_cut_off(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let (mut waits, mut timeout) = (Vec::new(), TIMEOUT);
    for _ in 0..PLAYED_MAX {
        match cut_off(&bob, measure(fixture, &bob, timeout)).await {
            Some(wait) => waits.push(wait),
            None => timeout *= 2,
        }
        ann.until_contenders("door", 1).await;
        if waits.len() == ROUNDS {
            break;
        }
    }
    assert_eq!(waits.len(), ROUNDS, "so many of {PLAYED_MAX} waiters had joined before their time was up");
    assert_met(waits);
    release(guard).await;
}

/// Cuts a waiter off once it has joined, and returns what was measured of its wait; `None` if its time was up before it
/// had joined.
pub(super) async fn cut_off(waiter: &Party, measuring: impl Future<Output = Measured>) -> Option<Measured> {
    let joined = waiter.journal.count(is_joined);
    let mut measuring = pin!(measuring);
    tokio::select! {
        biased;
        _ = &mut measuring => return None,
        () = waiter.journal.until_count("a join", joined + 1, is_joined) => {}
    }
    let (wait, ()) = tokio::join!(measuring, waiter.inflict(Fault::Cut));
    waiter.inflict(Fault::Heal).await;
    Some(wait)
}

async fn zero_is_try_lock(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let zero = Duration::ZERO;
    let guard = soon("the answer", ann.mutex("door").lock_timeout(zero)).await;
    let guard = guard.expect("it does not fail").expect("the lock is free");
    let busy = soon("the answer", bob.mutex("door").lock_timeout(zero)).await;
    assert!(busy.expect("busy is no error").is_none());
    assert_eq!(bob.journal.count(is_joined), 0);
    assert_eq!(ann.contenders("door").await, 1);
    release(guard).await;
}

async fn granted_in_time(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let mutex = bob.mutex("door");
    let waiting = tokio::spawn(async move { mutex.lock_timeout(Duration::from_secs(3600)).await });
    bob.journal.until_count("a join", 1, is_joined).await;
    release(guard).await;
    let outcome = soon("the grant", waiting).await.expect("the task does not panic");
    let guard = outcome.expect("it does not fail").expect("the lock came free in time");
    assert!(guard.hold().is_held(), "the hold outlives the timeout of its waiting");
    release(guard).await;
}

async fn makes_way(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let mutex = bob.mutex("door");
    let ask = |time| {
        let mutex = mutex.clone();
        async move { mutex.lock_timeout(time).await }
    };
    let hasty = bob.queue_up_for_a_while(ask).await;
    let patient = eve.queue_up("door").await;
    let outcome = soon("the end of the timeout", hasty).await.expect("the task does not panic");
    assert!(outcome.expect("a timeout is no error").is_none());
    ann.until_contenders("door", 2).await;
    release(guard).await;
    release(granted(patient).await).await;
}
