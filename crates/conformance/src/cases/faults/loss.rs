//! Sessions and contenders that are removed: a lost hold stays lost, a waiter joins again or is told.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, Liveness, LossReason, QueueName};
use lockkeeper_recipes::{Event, MutexGuard};
use tokio::sync::oneshot;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::lateness::{Measured, measured};
use crate::party::{Party, Waiting, granted, release};
use crate::waiting::soon;

/// How long a waiter waits at first if its session expires half-way, and how much later than a thread that only sleeps
/// the end may come: far less than with a timeout that begins anew.
const TIMEOUT: Duration = Duration::from_millis(600);
const LATE_MAX: Duration = Duration::from_millis(150);

/// How many waiters there are at most until one has joined again before its time was up, each with twice the time of
/// the one before: the last waits longer than any join on a busy machine takes.
const WAITERS_MAX: u32 = 7;

pub(super) fn cases() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    let removing = |case: Case| case.needs(&[FaultKind::RemoveContender]);
    let telling = |case: Case| case.needs(&[FaultKind::RemoveContender, FaultKind::TellOfRemoval]);
    vec![
        expiring(Case::new("a holder whose session expires has lost the lock for good", holder_expires)),
        expiring(Case::new("a session that expires ends all its holds and no others", ends_all_its_holds)),
        expiring(Case::new("a waiter whose session expires joins again at the tail", waiter_expires)),
        expiring(Case::new("a waiter that joins again keeps its deadline", keeps_its_deadline)),
        expiring(Case::new("when all sessions expire at once the lock is granted again", all_expire)),
        removing(Case::new("a holder whose contender is removed has lost the lock", holder_removed)),
        removing(Case::new("a waiter whose contender is removed is refused and never granted", waiter_removed)),
        removing(Case::new("a removed contender in the middle disturbs no other", middle_removed)),
        telling(Case::new("the next is granted the lock as soon as the holder's contender is removed", told_of_holder)),
        telling(Case::new("a waiter hears at once that its contender was removed", told_of_itself)),
    ]
}

fn is_rejoining(event: &Event) -> bool {
    matches!(event, Event::Rejoining { .. })
}

/// Checks that a guard's hold was lost for this reason, and that its release says so.
async fn assert_lost(guard: MutexGuard, reason: LossReason) {
    let hold = guard.hold().clone();
    assert_eq!(soon("the loss", hold.lost()).await, reason);
    assert_eq!(hold.liveness(), Liveness::Lost(reason));
    assert!(!hold.is_held());
    assert_eq!(hold.safe_for(), Some(Duration::ZERO));
    assert!(hold.standing().is_none());
    let error = soon("the release", guard.release()).await.expect_err("the hold was lost");
    assert_eq!(error.kind(), ErrorKind::Lost(reason));
    assert_eq!(error.advice(), Advice::Permanent);
}

async fn holder_expires(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let old = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::ExpireSession).await;
    let next = granted(waiting).await;
    assert!(!old.hold().is_held(), "the next one was granted the lock");
    assert!(next.fencing_token() > old.fencing_token());
    release(next).await;

    let new = ann.lock("door").await;
    assert!(new.hold().is_held(), "a new session is opened by itself");
    assert!(!old.hold().is_held(), "a later session revives no hold");
    assert_ne!(old.hold().contender(), new.hold().contender());
    assert_lost(old, LossReason::Expired).await;
    assert!(new.hold().is_held(), "the old guard releases nothing of the new one's");
    release(new).await;
}

async fn ends_all_its_holds(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let (door, window) = (ann.lock("door").await, ann.lock("window").await);
    let gate = bob.lock("gate").await;
    ann.inflict(Fault::ExpireSession).await;
    assert_lost(door, LossReason::Expired).await;
    assert_lost(window, LossReason::Expired).await;
    assert!(gate.hold().is_held());
    release(gate).await;
}

async fn waiter_expires(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let first = bob.queue_up("door").await;
    let second = eve.queue_up("door").await;
    bob.inflict(Fault::ExpireSession).await;
    bob.journal.until_count("the event of joining again", 1, is_rejoining).await;
    bob.journal.until_count("a second join", 2, is_joined).await;
    ann.until_contenders("door", 3).await;
    release(guard).await;
    let next = granted(second).await;
    assert!(!first.is_finished(), "it is at the tail now");
    release(next).await;
    release(granted(first).await).await;
    assert_eq!(bob.journal.count(is_rejoining), 1);
}

async fn keeps_its_deadline(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let mut timeouts = (0..WAITERS_MAX).map(|number| TIMEOUT * 2_u32.pow(number));
    loop {
        let timeout = timeouts.next().expect("one joins again before its time is up");
        if let Some(wait) = joins_again(fixture, &bob, timeout).await {
            assert!(wait.took >= timeout && wait.late <= LATE_MAX, "a timeout of {timeout:?}: {wait:?}");
            break;
        }
    }
    release(guard).await;
}

/// Has a waiter's session expire half-way, and measures its wait; `None` if its time was up before it had joined again.
async fn joins_again(fixture: &dyn Fixture, waiter: &Party, timeout: Duration) -> Option<Measured> {
    let (clock, mutex) = (fixture.clock(), waiter.mutex("door"));
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
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    bob.inflict(Fault::ExpireSession).await;
    ann.inflict(Fault::ExpireSession).await;
    assert_lost(guard, LossReason::Expired).await;
    release(granted(waiting).await).await;
}

fn removal(lock: &str, guard: &MutexGuard) -> Fault {
    Fault::RemoveContender {
        queue: QueueName::new(lock).expect("the name is valid"),
        contender: guard.hold().contender().clone(),
        stands_still: false,
    }
}

async fn removal_at(onlooker: &Party, position: usize) -> Fault {
    let contenders = onlooker.keeper.contenders("door").await.expect("the queue can be looked at");
    Fault::RemoveContender {
        queue: QueueName::new("door").expect("the name is valid"),
        contender: contenders[position].id.clone(),
        stands_still: false,
    }
}

async fn holder_removed(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let other = ann.lock("window").await;
    let waiting = bob.queue_up("door").await;
    bob.inflict(removal("door", &guard)).await;
    assert_lost(guard, LossReason::Removed).await;
    let next = granted(waiting).await;
    assert!(next.hold().is_held());
    assert!(other.hold().is_held(), "the session goes on");
    release(next).await;
    release(other).await;
    release(ann.lock("door").await).await;
}

/// It hears of the removal at once or when its turn comes. Either way it is told, and is not granted the lock.
async fn waiter_removed(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(removal_at(&ann, 1).await).await;
    assert!(guard.hold().is_held());
    release(guard).await;
    assert_refused(waiting).await;
}

async fn assert_refused(waiting: Waiting) {
    let outcome = soon("the refusal", waiting).await.expect("the task does not panic");
    let error = outcome.expect_err("its contender was removed");
    assert_eq!(error.kind(), ErrorKind::Removed);
    assert_eq!(error.advice(), Advice::Permanent);
}

async fn middle_removed(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let middle = bob.queue_up("door").await;
    let last = eve.queue_up("door").await;
    ann.inflict(removal_at(&ann, 1).await).await;
    assert!(!last.is_finished() && guard.hold().is_held());
    release(guard).await;
    assert_refused(middle).await;
    release(granted(last).await).await;
}

async fn told_of_holder(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    bob.inflict(removal("door", &guard)).await;
    let next = granted(waiting).await;
    // Each hears of the removal by itself, over a separate connection.
    assert_lost(guard, LossReason::Removed).await;
    release(next).await;
}

async fn told_of_itself(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(removal_at(&ann, 1).await).await;
    assert_refused(waiting).await;
    assert!(guard.hold().is_held());
    release(guard).await;
}
