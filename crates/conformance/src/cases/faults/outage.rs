//! A service that is out of reach for a while: lost replies, cut connections, pauses and restarts.

use std::time::Duration;

use lockkeeper_core::{Advice, Liveness, LossReason, Operation};
use lockkeeper_recipes::{Event, MutexGuard};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::lateness::measured;
use crate::party::{Party, Waiting, granted, release};
use crate::polls::at_most;
use crate::waiting::soon;

/// How much later than a thread that only sleeps a task may be told of a lapse; `is_held` itself is never late.
const NEWS_LATE_MAX: Duration = Duration::from_millis(250);

pub(super) fn cases() -> Vec<Case> {
    let losing = |case: Case| case.needs(&[FaultKind::LoseReply]);
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    let pausing = |case: Case| case.needs(&[FaultKind::Pause]);
    vec![
        losing(Case::new("a join whose reply is lost leaves one contender and no ghost", join_reply_lost)),
        losing(Case::new("a join behind a holder whose reply is lost blocks no other contender", waiter_reply_lost)),
        losing(Case::new("lock() dropped after a lost reply leaves nothing", dropped_after_a_lost_reply)),
        losing(Case::new("try_lock whose reply is lost fails and leaves nothing", try_reply_lost)),
        losing(Case::new("a wait whose reply is lost keeps its place", wait_reply_lost)),
        cutting(Case::new("a waiter that is cut off and healed keeps its place", waiter_cut)),
        cutting(Case::new("a waiter hears after healing of what happened while it was cut off", missed_departure)),
        cutting(Case::new("a holder that is cut off and healed still holds", holder_cut)),
        cutting(Case::new("a holder that stays cut off says so in time", holder_lapses)).outlives_sessions(),
        cutting(Case::new("a guard dropped while cut off is released after healing", dropped_while_cut)),
        cutting(Case::new("lock() dropped while cut off leaves nothing after healing", cancelled_while_cut)),
        pausing(Case::new("what is asked of a standing service is answered when it goes on", paused)),
        pausing(
            Case::new("lock() dropped while the service stands leaves nothing", cancelled_while_paused).given_back(),
        ),
        Case::new("lock() dropped in a pause, with a cut and a healing between, leaves nothing", cancelled_in_both)
            .given_back()
            .needs(&[FaultKind::Pause, FaultKind::Cut]),
        Case::new("after a restart of the service the lock can be had and tokens go on growing", restarted)
            .needs(&[FaultKind::Restart])
            .outlives_sessions(),
    ]
}

fn is_retrying(event: &Event) -> bool {
    matches!(event, Event::Retrying { .. })
}

async fn three(fixture: &dyn Fixture) -> (Party, Party, Party) {
    (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await)
}

async fn join_reply_lost(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let guard = ann.lock("door").await;
    ann.until_contenders("door", 1).await;
    assert!(guard.hold().is_held());
    release(guard).await;
    ann.until_contenders("door", 0).await;
}

async fn waiter_reply_lost(fixture: &dyn Fixture) {
    let (ann, bob, eve) = three(fixture).await;
    let guard = ann.lock("door").await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let first = bob.queue_up("door").await;
    let second = eve.queue_up("door").await;
    ann.until_contenders("door", 3).await;
    release(guard).await;
    release(granted(first).await).await;
    release(granted(second).await).await;
}

async fn dropped_after_a_lost_reply(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let mutex = ann.mutex("door");
    let task = tokio::spawn(async move { mutex.lock().await });
    let seen = |event: &Event| is_retrying(event) || is_joined(event);
    ann.journal.until_count("the retry, or the join", 1, seen).await;
    task.abort();
    drop(task.await);
    bob.until_contenders("door", 0).await;
    release(bob.lock("door").await).await;
}

async fn try_reply_lost(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    match soon("the answer", ann.mutex("door").try_lock()).await {
        // A service that finds the ticket again can still answer.
        Ok(guard) => release(guard.expect("no other caller wants it")).await,
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    bob.until_contenders("door", 0).await;
    release(bob.lock("door").await).await;
}

async fn wait_reply_lost(fixture: &dyn Fixture) {
    let (ann, bob, eve) = three(fixture).await;
    let guard = ann.lock("door").await;
    ann.inflict(Fault::LoseReply(Operation::Wait)).await;
    let first = bob.queue_up("door").await;
    let second = eve.queue_up("door").await;
    release(guard).await;
    let next = granted(first).await;
    assert_eq!(bob.journal.count(is_joined), 1, "it kept its place");
    release(next).await;
    release(granted(second).await).await;
}

/// Ann holds, bob waits, eve waits behind him.
async fn line_of_three(ann: &Party, bob: &Party, eve: &Party) -> (MutexGuard, Waiting, Waiting) {
    let guard = ann.lock("door").await;
    let first = bob.queue_up("door").await;
    let second = eve.queue_up("door").await;
    (guard, first, second)
}

async fn waiter_cut(fixture: &dyn Fixture) {
    let (ann, bob, eve) = three(fixture).await;
    let (guard, first, second) = line_of_three(&ann, &bob, &eve).await;
    bob.inflict(Fault::Cut).await;
    bob.inflict(Fault::Heal).await;
    release(guard).await;
    let next = granted(first).await;
    assert_eq!(bob.journal.count(is_joined), 1, "it kept its place");
    assert!(!second.is_finished());
    release(next).await;
    release(granted(second).await).await;
}

async fn missed_departure(fixture: &dyn Fixture) {
    let (ann, bob, eve) = three(fixture).await;
    let (guard, first, second) = line_of_three(&ann, &bob, &eve).await;
    bob.inflict(Fault::Cut).await;
    release(guard).await;
    ann.until_contenders("door", 2).await;
    assert!(!second.is_finished(), "it is behind the one that is cut off");
    bob.inflict(Fault::Heal).await;
    let next = granted(first).await;
    assert!(!second.is_finished());
    release(next).await;
    release(granted(second).await).await;
}

async fn holder_cut(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Cut).await;
    assert!(guard.hold().is_held(), "a cut is no loss while the session lives");
    assert!(!waiting.is_finished());
    ann.inflict(Fault::Heal).await;
    soon("the end of jeopardy", async {
        while !matches!(guard.hold().liveness(), Liveness::Held { .. }) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    release(guard).await;
    release(granted(waiting).await).await;
}

async fn holder_lapses(fixture: &dyn Fixture) {
    let Some(timeout) = fixture.session_timeout() else {
        panic!("a fixture that can cut a client off says when its session ends");
    };
    let (ann, bob, _) = three(fixture).await;
    let guard = ann.lock("door").await;
    let hold = guard.hold().clone();
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Cut).await;
    let (reason, news) = measured(fixture, timeout, hold.lost()).await;
    assert!(matches!(reason, LossReason::Lapsed | LossReason::Expired), "{reason:?}");
    assert!(news.late <= NEWS_LATE_MAX, "of a lapse {timeout:?} after the cut: {news:?}");
    assert!(!waiting.is_finished() || !hold.is_held());
    ann.inflict(Fault::Heal).await;
    assert!(!hold.is_held(), "a healed way revives no hold");
    assert!(soon("the release", guard.release()).await.is_err());
    release(granted(waiting).await).await;
}

async fn dropped_while_cut(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Cut).await;
    drop(guard);
    ann.inflict(Fault::Heal).await;
    release(granted(waiting).await).await;
}

async fn cancelled_while_cut(fixture: &dyn Fixture) {
    let (ann, bob, eve) = three(fixture).await;
    let (guard, first, second) = line_of_three(&ann, &bob, &eve).await;
    bob.inflict(Fault::Cut).await;
    first.abort();
    drop(first.await);
    bob.inflict(Fault::Heal).await;
    ann.until_contenders("door", 2).await;
    release(guard).await;
    release(granted(second).await).await;
}

async fn paused(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    release(ann.lock("door").await).await;
    release(bob.lock("door").await).await;
    ann.inflict(Fault::Pause).await;
    let turn = |party: Party| async move { release(party.lock("door").await).await };
    let turns = [ann.clone(), bob].map(|party| tokio::spawn(turn(party)));
    ann.inflict(Fault::Resume).await;
    for task in turns {
        soon("the turns", task).await.expect("the task does not panic");
    }
}

async fn cancelled_while_paused(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    release(ann.lock("door").await).await;
    ann.inflict(Fault::Pause).await;
    let mutex = ann.mutex("door");
    let outcome = at_most(1, mutex.lock()).await;
    assert!(outcome.is_none(), "the service stands still and cannot have answered");
    ann.inflict(Fault::Resume).await;
    bob.until_contenders("door", 0).await;
    release(bob.lock("door").await).await;
}

/// The join waits in the service. Its withdrawal must not come before it, also if the connection breaks meanwhile.
async fn cancelled_in_both(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    release(ann.lock("door").await).await;
    ann.inflict(Fault::Pause).await;
    let mutex = ann.mutex("door");
    {
        let mut locking = Box::pin(mutex.lock());
        assert!(at_most(1, &mut locking).await.is_none());
        ann.inflict(Fault::Cut).await;
    }
    ann.inflict(Fault::Heal).await;
    ann.inflict(Fault::Resume).await;
    release(bob.lock("door").await).await;
    bob.until_contenders("door", 0).await;
}

async fn restarted(fixture: &dyn Fixture) {
    let (ann, bob, _) = three(fixture).await;
    let before = ann.lock("door").await;
    let token = before.fencing_token();
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Restart).await;
    drop(before);
    let after = granted(waiting).await;
    assert!(after.fencing_token() > token);
    release(after).await;
    let next = ann.lock("door").await;
    assert!(next.fencing_token() > token);
    release(next).await;
}
