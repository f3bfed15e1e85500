//! A service that is out of reach for a while: lost replies, cut connections, pauses and restarts.

use std::time::Duration;

use lockkeeper_core::{Advice, Liveness, LossReason, Modes, Operation, Wait};
use lockkeeper_recipes::Event;

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, Waiting, give_back, granted, parties};
use crate::waiting::{at_most, measured, soon, until};

/// How much later than a thread that only sleeps a task may be told of a lapse; `is_held` itself is never late.
const NEWS_LATE_MAX: Duration = Duration::from_millis(250);

const ALL: Ask = Ask::Permits(3, 3);

pub(super) fn cases() -> Vec<Case> {
    let losing = |case: Case| case.needs(&[FaultKind::LoseReply]);
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    let of_mutexes = vec![
        losing(Case::new("a join whose reply is lost leaves one contender and no ghost", join_reply_lost)),
        losing(Case::with(
            "a join behind a holder whose reply is lost blocks no other contender",
            Operation::Join,
            waiter_reply_lost,
        )),
        losing(Case::with("a wait whose reply is lost keeps its place", Operation::Wait, waiter_reply_lost)),
        losing(Case::new("lock() dropped after a lost reply leaves nothing", dropped_after_a_lost_reply)),
        losing(Case::with("try_lock whose reply is lost fails and leaves nothing", Ask::Mutex, try_reply_lost)),
        cutting(Case::new("a waiter that is cut off and healed keeps its place", waiter_cut)),
        cutting(Case::with(
            "a waiter hears after healing of what happened while it was cut off",
            Ask::Mutex,
            missed_departure,
        )),
        cutting(Case::new("a holder that is cut off and healed still holds", holder_cut)),
        cutting(Case::new("a holder that stays cut off says so in time", holder_lapses)).outlives_sessions(),
        cutting(Case::new("a guard dropped while cut off is released after healing", dropped_while_cut)),
        cutting(Case::new("lock() dropped while cut off leaves nothing after healing", cancelled_while_cut)),
        // The join waits in the service. Its withdrawal must not come before it, also if the connection breaks.
        Case::new(
            "lock() dropped in a pause, with a cut and a healing between, leaves nothing",
            cancelled_while_paused,
        )
        .given_back()
        .needs(&[FaultKind::Pause, FaultKind::Cut]),
        Case::new("after a restart of the service the lock can be had and tokens go on growing", restarted)
            .needs(&[FaultKind::Restart])
            .outlives_sessions(),
    ];
    let of_permits = vec![
        losing(Case::new("permits whose reply is lost are not orphaned", permits_reply_lost)),
        losing(Case::with(
            "try_acquire whose reply is lost leaves no permit behind",
            Ask::Permits(2, 2),
            try_reply_lost,
        )),
        cutting(Case::with(
            "a waiter for permits that is cut off and healed hears what it missed",
            Ask::Permits(1, 1),
            missed_departure,
        )),
    ];
    [using(Modes::MUTEX, of_mutexes), using(Modes::SEMAPHORE, of_permits)].concat()
}

fn is_retrying(event: &Event) -> bool {
    matches!(event, Event::Retrying { .. })
}

/// Ann holds, bob waits, and another one behind him.
struct Line {
    ann: Party,
    bob: Party,
    held: Held,
    first: Waiting<Held>,
    second: Waiting<Held>,
}

impl Line {
    async fn form(fixture: &dyn Fixture, ask: Ask) -> Self {
        let [ann, bob, eve] = parties(fixture).await;
        let held = ann.take(ask).await;
        let first = bob.queue_up_as(ask).await;
        let second = eve.queue_up_as(ask).await;
        Self { ann, bob, held, first, second }
    }
}

/// The first is granted in the place that it took, and then the second.
async fn served_in_turn(bob: &Party, first: Waiting<Held>, second: Waiting<Held>) {
    let next = granted(first).await;
    assert_eq!(bob.journal.count(is_joined), 1, "it kept its place");
    assert!(!second.is_finished());
    give_back(next).await;
    give_back(granted(second).await).await;
}

async fn join_reply_lost(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let held = ann.take(Ask::Mutex).await;
    ann.until_contenders(LOCK, 1).await;
    assert!(held.is_held());
    give_back(held).await;
    ann.until_contenders(LOCK, 0).await;
}

async fn waiter_reply_lost(fixture: &dyn Fixture, lost: Operation) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    ann.inflict(Fault::LoseReply(lost)).await;
    let first = bob.queue_up_as(Ask::Mutex).await;
    let second = eve.queue_up_as(Ask::Mutex).await;
    // A look of hers might be the one whose reply is lost.
    bob.until_contenders(LOCK, 3).await;
    give_back(held).await;
    if lost == Operation::Wait {
        return served_in_turn(&bob, first, second).await;
    }
    // A join whose reply is lost may be made anew, in another place.
    give_back(granted(first).await).await;
    give_back(granted(second).await).await;
}

async fn dropped_after_a_lost_reply(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let task = tokio::spawn(ann.mutex(LOCK).lock_owned());
    let seen = |event: &Event| is_retrying(event) || is_joined(event);
    ann.journal.until_count("the retry, or the join", 1, seen).await;
    task.abort();
    drop(task.await);
    leaves_nothing(&bob, Ask::Mutex).await;
}

async fn leaves_nothing(onlooker: &Party, ask: Ask) {
    onlooker.until_contenders(LOCK, 0).await;
    give_back(onlooker.take(ask).await).await;
}

async fn try_reply_lost(fixture: &dyn Fixture, ask: Ask) {
    let [ann, bob] = parties(fixture).await;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    match soon("the answer", ask.within(&ann.keeper, Wait::No)).await {
        // A service that finds the ticket again can still answer.
        Ok(held) => give_back(held.expect("no other caller wants it")).await,
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    leaves_nothing(&bob, ask).await;
}

/// The reply for the waiter's place comes, the reply for the permits does not.
async fn permits_reply_lost(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for wanted in [1, 3] {
        let held = ann.take(ALL).await;
        let waiting = bob.queue_up_as(Ask::Permits(wanted, 3)).await;
        bob.inflict(Fault::LoseReply(Operation::Join)).await;
        give_back(held).await;
        let permits = granted(waiting).await;
        assert_eq!(permits.holds().len(), wanted as usize);
        ann.until_contenders(LOCK, wanted as usize).await;
        give_back(permits).await;
        give_back(ann.tried(ALL).await.expect("all of them are free again")).await;
    }
}

async fn waiter_cut(fixture: &dyn Fixture) {
    let Line { bob, held, first, second, .. } = Line::form(fixture, Ask::Mutex).await;
    bob.inflict(Fault::Cut).await;
    bob.inflict(Fault::Heal).await;
    give_back(held).await;
    served_in_turn(&bob, first, second).await;
}

async fn missed_departure(fixture: &dyn Fixture, ask: Ask) {
    let Line { ann, bob, held, first, second } = Line::form(fixture, ask).await;
    bob.inflict(Fault::Cut).await;
    give_back(held).await;
    ann.until_contenders(LOCK, 2).await;
    assert!(!first.is_finished() && !second.is_finished(), "it is behind the one that is cut off");
    bob.inflict(Fault::Heal).await;
    served_in_turn(&bob, first, second).await;
}

async fn cancelled_while_cut(fixture: &dyn Fixture) {
    let Line { ann, bob, held, first, second } = Line::form(fixture, Ask::Mutex).await;
    bob.inflict(Fault::Cut).await;
    first.abort();
    drop(first.await);
    bob.inflict(Fault::Heal).await;
    ann.until_contenders(LOCK, 2).await;
    give_back(held).await;
    give_back(granted(second).await).await;
}

async fn holder_cut(fixture: &dyn Fixture) {
    let Line { ann, held, first, second, .. } = Line::form(fixture, Ask::Mutex).await;
    ann.inflict(Fault::Cut).await;
    assert!(held.is_held(), "a cut is no loss while the session lives");
    assert!(!first.is_finished());
    ann.inflict(Fault::Heal).await;
    let is_believed = async || matches!(held.holds()[0].liveness(), Liveness::Held { .. });
    until("the end of jeopardy", is_believed).await;
    give_back(held).await;
    give_back(granted(first).await).await;
    give_back(granted(second).await).await;
}

async fn holder_lapses(fixture: &dyn Fixture) {
    let timeout = fixture.session_timeout().expect("a client that can be cut off has a session timeout");
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock(LOCK).await;
    let hold = guard.hold().clone();
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    ann.inflict(Fault::Cut).await;
    let (reason, news) = measured(fixture, timeout, hold.lost()).await;
    assert!(matches!(reason, LossReason::Lapsed | LossReason::Expired), "{reason:?}");
    assert!(news.late <= NEWS_LATE_MAX, "of a lapse {timeout:?} after the cut: {news:?}");
    assert!(!waiting.is_finished() || !hold.is_held());
    ann.inflict(Fault::Heal).await;
    assert!(!hold.is_held(), "a healed way revives no hold");
    assert!(soon("the release", guard.release()).await.is_err());
    give_back(granted(waiting).await).await;
}

async fn dropped_while_cut(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    ann.inflict(Fault::Cut).await;
    drop(held);
    ann.inflict(Fault::Heal).await;
    give_back(granted(waiting).await).await;
}

async fn cancelled_while_paused(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    give_back(ann.take(Ask::Mutex).await).await;
    ann.inflict(Fault::Pause).await;
    let mutex = ann.mutex(LOCK);
    let mut locking = Box::pin(mutex.lock());
    assert!(at_most(1, &mut locking).await.is_none(), "the service stands still and cannot have answered");
    ann.inflict(Fault::Cut).await;
    drop(locking);
    ann.inflict(Fault::Heal).await;
    ann.inflict(Fault::Resume).await;
    give_back(bob.take(Ask::Mutex).await).await;
    bob.until_contenders(LOCK, 0).await;
}

async fn restarted(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let before = ann.take(Ask::Mutex).await;
    let token = before.token();
    let waiting = bob.queue_up_as(Ask::Mutex).await;
    ann.inflict(Fault::Restart).await;
    drop(before);
    let after = granted(waiting).await;
    assert!(after.token() > token);
    give_back(after).await;
    let next = ann.take(Ask::Mutex).await;
    assert!(next.token() > token);
    give_back(next).await;
}
