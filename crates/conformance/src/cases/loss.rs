//! Sessions and contenders that are removed: a lost hold stays lost, a waiter joins again or is told.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, Liveness, LossReason, Modes, Part};
use lockkeeper_recipes::Event;
use tokio::sync::oneshot;

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, Waiting, give_back, granted, parties};
use crate::speaker::part_of;
use crate::waiting::{Measured, assert_met, measured, soon};

/// How long a waiter waits at first if its session expires half-way, and how much later than a thread that only sleeps
/// the end may come: far less than with a timeout that begins anew.
const TIMEOUT: Duration = Duration::from_millis(600);
const LATE_MAX: Duration = Duration::from_millis(150);

/// How many waiters there are at most until one has joined again before its time was up, each with twice the time of
/// the one before: the last waits longer than any join on a busy machine takes.
const WAITERS_MAX: u32 = 7;

/// How many waits that join again are measured.
const ROUNDS: usize = 3;

const ONE: Ask = Ask::Permits(1, 1);
const READER_BEHIND: [Ask; 3] = [Ask::Write, Ask::Read, Ask::Write];

pub(super) fn cases() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    let removing = |case: Case| case.needs(&[FaultKind::RemoveContender]);
    let telling = |case: Case| case.needs(&[FaultKind::RemoveContender, FaultKind::TellOfRemoval]);
    let of_mutexes = vec![
        expiring(Case::new("a holder whose session expires has lost the lock for good", holder_expires)),
        expiring(Case::new("a session that expires ends all its holds and no others", ends_all_its_holds)),
        expiring(Case::new("a waiter that joins again keeps its deadline", keeps_its_deadline)),
        expiring(Case::new("when all sessions expire at once the lock is granted again", all_expire)),
        removing(Case::new("a holder whose contender is removed has lost the lock", holder_removed)),
        removing(Case::new("a waiter whose contender is removed is refused and never granted", waiter_removed)),
        removing(Case::with("a removed contender in the middle disturbs no other", Ask::Mutex, middle_removed)),
        telling(Case::new("the next is granted the lock as soon as the holder's contender is removed", told_of_holder)),
        telling(Case::new("a waiter hears at once that its contender was removed", told_of_itself)),
    ];
    let of_permits = vec![
        removing(Case::new("a permit removed behind its holder's back is lost and granted anew", permit_removed)),
        removing(Case::with(
            "a waiter for permits that is removed is refused and holds no other up",
            ONE,
            middle_removed,
        )),
    ];
    let passed_on = [
        ("the permits of a session that expires are lost, and free for others", Ask::Permits(2, 2), Modes::SEMAPHORE),
        ("a leader whose session expires leads no more, and the next one does", Ask::Lead, Modes::ELECTION),
    ];
    let joining_again = [
        ("a waiter whose session expires joins again at the tail", [Ask::Mutex; 3], Modes::MUTEX),
        ("a waiter for permits whose session expires joins again and is granted", [ONE; 3], Modes::SEMAPHORE),
        ("a candidate whose session expires stands again behind the others", [Ask::Lead; 3], Modes::ELECTION),
        ("a waiting reader whose session expires joins again behind the writers", READER_BEHIND, Modes::READ_WRITE),
    ];
    [
        using(Modes::MUTEX, of_mutexes),
        using(Modes::SEMAPHORE, of_permits),
        passed_on.map(|(name, ask, uses)| expiring(Case::with(name, ask, is_passed_on)).uses(uses)).into(),
        joining_again.map(|(name, asks, uses)| expiring(Case::with(name, asks, joins_again_behind)).uses(uses)).into(),
    ]
    .concat()
}

fn is_rejoining(event: &Event) -> bool {
    matches!(event, Event::Rejoining { .. })
}

/// Checks that each hold was lost for this reason, and that its release says so.
async fn assert_lost(held: Held, reason: LossReason) {
    assert_eq!(held.lost().await, reason);
    for hold in held.holds() {
        assert_eq!(hold.liveness(), Liveness::Lost(reason));
        assert!(!hold.is_held());
        assert_eq!(hold.safe_for(), Some(Duration::ZERO));
        assert!(hold.standing().is_none());
    }
    let error = soon("the release", held.release()).await.expect_err("the hold was lost");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Lost(reason), Advice::AskAgain));
}

/// The session of a holder expires: the next one is granted what it held, and keeps it. Returns the hold that was lost.
async fn expires(holder: &Party, next: &Party, ask: Ask) -> Held {
    let old = holder.take(ask).await;
    let waiting = next.queue_up_as(ask).await;
    holder.inflict(Fault::ExpireSession).await;
    let new = granted(waiting).await;
    assert!(old.holds().iter().all(|hold| !hold.is_held()), "the next one was granted it");
    assert!(new.token() > old.token());
    next.until_contenders(LOCK, new.holds().len()).await;
    give_back(new).await;
    old
}

async fn is_passed_on(fixture: &dyn Fixture, ask: Ask) {
    let [ann, bob] = parties(fixture).await;
    let old = expires(&ann, &bob, ask).await;
    let new = bob.take(ask).await;
    assert_lost(old, LossReason::Expired).await;
    assert!(new.is_held(), "the old guard releases nothing of the new one's");
    give_back(new).await;
}

async fn holder_expires(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let old = expires(&ann, &bob, Ask::Mutex).await;
    let new = ann.take(Ask::Mutex).await;
    assert!(new.is_held(), "a new session is opened by itself");
    assert!(!old.is_held(), "a later session revives no hold");
    assert_ne!(old.holds()[0].contender(), new.holds()[0].contender());
    assert_lost(old, LossReason::Expired).await;
    assert!(new.is_held(), "the old guard releases nothing of the new one's");
    give_back(new).await;
}

async fn ends_all_its_holds(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (door, window) = (ann.lock("door").await, ann.lock("window").await);
    let gate = bob.lock("gate").await;
    ann.inflict(Fault::ExpireSession).await;
    assert_lost(Held::Mutex(door), LossReason::Expired).await;
    assert_lost(Held::Mutex(window), LossReason::Expired).await;
    assert!(gate.hold().is_held());
    give_back(Held::Mutex(gate)).await;
}

/// The session of the first of two waiters expires.
async fn joins_again_behind(fixture: &dyn Fixture, [holds, first, second]: [Ask; 3]) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.take(holds).await;
    let first = bob.queue_up_as(first).await;
    let second = eve.queue_up_as(second).await;
    bob.inflict(Fault::ExpireSession).await;
    bob.journal.until_count("the event of joining again", 1, is_rejoining).await;
    bob.journal.until_count("a second join", 2, is_joined).await;
    ann.until_contenders(LOCK, 3).await;
    assert!(held.is_held() && !second.is_finished());
    give_back(held).await;
    let next = granted(second).await;
    assert!(!first.is_finished(), "it is at the tail now");
    give_back(next).await;
    give_back(granted(first).await).await;
    assert_eq!(bob.journal.count(is_rejoining), 1);
}

async fn keeps_its_deadline(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let mut timeouts = (0..WAITERS_MAX).map(|number| TIMEOUT * 2_u32.pow(number));
    let mut timeout = timeouts.next().expect("there is one");
    let mut waits = Vec::new();
    while waits.len() < ROUNDS {
        match joins_again(fixture, &bob, timeout).await {
            Some(wait) => {
                assert!(wait.took >= timeout, "a timeout of {timeout:?}: {wait:?}");
                waits.push(wait);
            }
            None => timeout = timeouts.next().expect("one joins again before its time is up"),
        }
    }
    assert_met(waits, LATE_MAX);
    give_back(held).await;
}

/// Has a waiter's session expire half-way, and measures its wait; `None` if its time was up before it had joined again.
async fn joins_again(fixture: &dyn Fixture, waiter: &Party, timeout: Duration) -> Option<Measured> {
    let (clock, mutex) = (fixture.clock(), waiter.mutex(LOCK));
    let half_way = clock.now().saturating_add(timeout / 2);
    let joined = waiter.journal.count(is_joined);
    let (time_is_up, is_up) = oneshot::channel();
    let waiting = async {
        let (outcome, wait) = measured(fixture, timeout, mutex.lock_timeout(timeout)).await;
        let has_joined_again = waiter.journal.count(is_joined) > joined + 1;
        // It is no longer listened to once the waiter has joined.
        let _ = time_is_up.send(());
        (outcome, wait, has_joined_again)
    };
    let expiring = async {
        tokio::select! {
            () = waiter.journal.until_count("a join", joined + 1, is_joined) => {}
            _ = is_up => return,
        }
        clock.sleep_until(half_way).await;
        waiter.inflict(Fault::ExpireSession).await;
    };
    let ((outcome, wait, has_joined_again), ()) = tokio::join!(waiting, expiring);
    match outcome {
        Ok(granted) => assert!(granted.is_none(), "it was granted what another one holds"),
        Err(error) => assert!(!has_joined_again && error.is_transient(), "a timeout is no error: {error:?}"),
    }
    has_joined_again.then_some(wait)
}

async fn all_expire(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    bob.inflict(Fault::ExpireSession).await;
    ann.inflict(Fault::ExpireSession).await;
    assert_lost(held, LossReason::Expired).await;
    give_back(granted(waiting).await).await;
}

async fn holder_removed(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let other = Held::Mutex(ann.lock("window").await);
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    bob.inflict(ann.removal(Ask::Mutex, 0).await).await;
    assert_lost(held, LossReason::Removed).await;
    let next = granted(waiting).await;
    assert!(next.is_held());
    assert!(other.is_held(), "the session goes on");
    give_back(next).await;
    give_back(other).await;
    give_back(ann.take(Ask::Mutex).await).await;
}

/// It hears of the removal at once or when its turn comes. Either way it is told, and is not granted the lock.
async fn waiter_removed(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    ann.inflict(ann.removal(Ask::Mutex, 1).await).await;
    assert!(held.is_held());
    give_back(held).await;
    assert_refused(waiting).await;
}

async fn assert_refused(waiting: Waiting<Held>) {
    let outcome = soon("the refusal", waiting).await.expect("the task does not panic");
    let error = outcome.expect_err("its contender was removed");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Removed, Advice::Permanent));
}

async fn middle_removed(fixture: &dyn Fixture, ask: Ask) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.take(ask).await;
    // The place in which a permit was waited for may still be on its way out.
    ann.until_contenders(LOCK, 1).await;
    let middle = bob.queue_up_as(ask).await;
    let last = eve.queue_up_as(ask).await;
    ann.inflict(ann.removal(ask, 1).await).await;
    assert!(!last.is_finished() && held.is_held());
    // A service that does not tell at once tells when something happens.
    give_back(held).await;
    assert_refused(middle).await;
    give_back(granted(last).await).await;
}

async fn permit_removed(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (kept, lost) = (ann.take(Ask::Permits(1, 2)).await, ann.take(Ask::Permits(1, 2)).await);
    let (queue, contender) = (part_of(LOCK, Part::Permits), lost.holds()[0].contender().clone());
    bob.inflict(Fault::RemoveContender { queue, contender, stands_still: false }).await;
    assert_eq!(lost.lost().await, LossReason::Removed);
    assert!(kept.is_held(), "the other one stands");
    let next = bob.take(Ask::Permits(1, 2)).await;
    assert_lost(lost, LossReason::Removed).await;
    assert!(next.is_held(), "the release of the lost permit gives no other back");
    // The place among the waiters, from which it was taken, is left without being waited for.
    ann.until_contenders(LOCK, 2).await;
    give_back(next).await;
    give_back(kept).await;
}

async fn told_of_holder(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    bob.inflict(ann.removal(Ask::Mutex, 0).await).await;
    let next = granted(waiting).await;
    // Each hears of the removal by itself, over a separate connection.
    assert_lost(held, LossReason::Removed).await;
    give_back(next).await;
}

async fn told_of_itself(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    ann.inflict(ann.removal(Ask::Mutex, 1).await).await;
    assert_refused(waiting).await;
    assert!(held.is_held());
    give_back(held).await;
}
