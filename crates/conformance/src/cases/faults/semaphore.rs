//! Permits under faults: none is orphaned, none is granted twice.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Mode, Operation, Part, Wait};
use lockkeeper_recipes::Permit;

use crate::case::{Case, Runtime};
use crate::dropped::{Before, drop_at_every_await_point};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, granted, release, release_all};
use crate::speaker::{Speaker, part_of};
use crate::waiting::soon;

const LONG: Duration = Duration::from_secs(3600);

pub(super) fn cases() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    let removing = |case: Case| case.needs(&[FaultKind::RemoveContender]);
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    let one_thread = |case: Case| case.runtime(Runtime::CurrentThread);
    vec![
        Case::new("permits whose reply is lost are not orphaned", reply_lost).needs(&[FaultKind::LoseReply]),
        Case::new("try_acquire whose reply is lost leaves no permit behind", try_reply_lost)
            .needs(&[FaultKind::LoseReply]),
        expiring(Case::new("the permits of a session that expires are lost, and free for others", holder_expires)),
        expiring(Case::new("a waiter for permits whose session expires joins again and is granted", waiter_expires)),
        removing(Case::new("a permit removed behind its holder's back is lost and granted anew", permit_removed)),
        removing(Case::new("a waiter for permits that is removed is refused and holds no other up", waiter_removed)),
        cutting(Case::new("a waiter for permits that is cut off and healed hears what it missed", waiter_cut)),
        cutting(Case::new("permits dropped while cut off are free after healing", dropped_while_cut)),
        one_thread(Case::new("acquire_many() dropped at every await point leaves free permits free", drop_free)),
        one_thread(Case::new("acquire_many() dropped at every await point leaves no waiter and no permit", drop_taken)),
        one_thread(Case::new("try_acquire() dropped at every await point leaves free permits free", drop_try)),
        one_thread(Case::new("acquire_timeout() dropped at every await point leaves no waiter", drop_timeout)),
    ]
}

/// The reply for the waiter's place comes, the reply for the permits does not.
async fn reply_lost(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    for wanted in [1, 3] {
        let held = soon("the grant", ann.semaphore("pool", 3).acquire_many(3)).await.expect("they are granted");
        let waiting = bob.queue_up_for_permits(&bob.semaphore("pool", 3), wanted).await;
        bob.inflict(Fault::LoseReply(Operation::Join)).await;
        release_all(held).await;
        let permits = granted(waiting).await;
        assert_eq!(permits.len(), wanted as usize);
        ann.until_contenders("pool", wanted as usize).await;
        release_all(permits).await;
        let all = soon("the answer", ann.semaphore("pool", 3).acquire_many_within(3, Wait::No)).await;
        release_all(all.expect("it does not fail").expect("all of them are free again")).await;
    }
}

async fn try_reply_lost(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    match soon("the answer", ann.semaphore("pool", 2).acquire_many_within(2, Wait::No)).await {
        // A service that finds the ticket again can still answer.
        Ok(permits) => release_all(permits.expect("no other caller wants any")).await,
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error}"),
    }
    bob.until_contenders("pool", 0).await;
    let all = soon("the answer", bob.semaphore("pool", 2).acquire_many_within(2, Wait::No)).await;
    release_all(all.expect("it does not fail").expect("both are free")).await;
}

async fn holder_expires(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 2).acquire_many(2)).await.expect("they are granted");
    let waiting = bob.queue_up_for_permits(&bob.semaphore("pool", 2), 2).await;
    ann.inflict(Fault::ExpireSession).await;
    let next = granted(waiting).await;
    for permit in held {
        assert!(!permit.hold().is_held(), "the next one was granted its permits");
        let error = soon("the release", permit.release()).await.expect_err("it was lost");
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Expired));
    }
    assert!(next.iter().all(|permit| permit.hold().is_held()));
    ann.until_contenders("pool", 2).await;
    release_all(next).await;
}

async fn waiter_expires(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 1).acquire()).await.expect("it is granted");
    let first = bob.queue_up_for_permits(&bob.semaphore("pool", 1), 1).await;
    let second = eve.queue_up_for_permits(&eve.semaphore("pool", 1), 1).await;
    bob.inflict(Fault::ExpireSession).await;
    bob.journal.until_count("a second join", 2, is_joined).await;
    assert!(held.hold().is_held() && !second.is_finished());
    release(held).await;
    let next = granted(second).await;
    assert!(!first.is_finished(), "it is behind the other now");
    release_all(next).await;
    release_all(granted(first).await).await;
}

async fn permit_removed(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut held = soon("the grant", ann.semaphore("pool", 2).acquire_many(2)).await.expect("they are granted");
    let lost: Permit = held.pop().expect("there are two");
    let queue = part_of("pool", Part::Permits);
    let contender = lost.hold().contender().clone();
    bob.inflict(Fault::RemoveContender { queue, contender, stands_still: false }).await;
    assert_eq!(soon("the loss", lost.hold().lost()).await, LossReason::Removed);
    assert!(held[0].hold().is_held(), "the other one stands");
    let next = soon("the grant", bob.semaphore("pool", 2).acquire()).await.expect("one is free");
    let error = soon("the release", lost.release()).await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Removed));
    assert!(next.hold().is_held(), "the release of the lost permit gives no other back");
    // The place among the waiters, from which it was taken, is left without being waited for.
    ann.until_contenders("pool", 2).await;
    release(next).await;
    release_all(held).await;
}

async fn waiter_removed(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 1).acquire()).await.expect("it is granted");
    let first = bob.queue_up_for_permits(&bob.semaphore("pool", 1), 1).await;
    let second = eve.queue_up_for_permits(&eve.semaphore("pool", 1), 1).await;
    let onlooker = Speaker::enter(fixture).await;
    let waiters = part_of("pool", Part::Waiters);
    let view = onlooker.view(&waiters).await;
    assert!(view.contenders.iter().all(|contender| contender.mode == Mode::Acquire));
    let contender = view.contenders[0].id.clone();
    bob.inflict(Fault::RemoveContender { queue: waiters, contender, stands_still: false }).await;
    // A service that does not tell at once tells when something happens.
    release(held).await;
    let outcome = soon("the refusal", first).await.expect("the task does not panic");
    let error = outcome.expect_err("its place was removed");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Removed, Advice::Permanent));
    release_all(granted(second).await).await;
}

async fn waiter_cut(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 1).acquire()).await.expect("it is granted");
    let first = bob.queue_up_for_permits(&bob.semaphore("pool", 1), 1).await;
    let second = eve.queue_up_for_permits(&eve.semaphore("pool", 1), 1).await;
    bob.inflict(Fault::Cut).await;
    release(held).await;
    ann.until_contenders("pool", 2).await;
    assert!(!first.is_finished() && !second.is_finished());
    bob.inflict(Fault::Heal).await;
    let next = granted(first).await;
    assert_eq!(bob.journal.count(is_joined), 1, "it kept its place");
    assert!(!second.is_finished());
    release_all(next).await;
    release_all(granted(second).await).await;
}

async fn dropped_while_cut(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let held = soon("the grant", ann.semaphore("pool", 3).acquire_many(3)).await.expect("they are granted");
    let waiting = bob.queue_up_for_permits(&bob.semaphore("pool", 3), 3).await;
    ann.inflict(Fault::Cut).await;
    drop(held);
    ann.inflict(Fault::Heal).await;
    release_all(granted(waiting).await).await;
}

/// One of two permits, for the holder that is there before an attempt at both.
async fn one_of_two(prober: Party) -> Permit {
    prober.semaphore("door", 2).acquire().await.expect("it is granted")
}

async fn drop_free(fixture: &dyn Fixture) {
    let acquire = async |party: Party| party.semaphore("door", 2).acquire_many(2).await.map(Some);
    // Opening a session, the place among the waiters, the look at permits and number, the number, the permits.
    drop_at_every_await_point(fixture, "acquire_many()", Before::Free, one_of_two, 5, acquire).await;
}

async fn drop_taken(fixture: &dyn Fixture) {
    let acquire = async |party: Party| party.semaphore("door", 2).acquire_many(2).await.map(Some);
    // The same, and waiting for a change, and looking again.
    drop_at_every_await_point(fixture, "acquire_many()", Before::ReleasedOnceQueued, one_of_two, 6, acquire).await;
}

async fn drop_try(fixture: &dyn Fixture) {
    let acquire = async |party: Party| party.semaphore("door", 2).acquire_many_within(2, Wait::No).await;
    drop_at_every_await_point(fixture, "acquire_many_within(Wait::No)", Before::Free, one_of_two, 5, acquire).await;
}

async fn drop_timeout(fixture: &dyn Fixture) {
    let acquire = async |party: Party| party.semaphore("door", 2).acquire_many_within(2, Wait::AtMost(LONG)).await;
    let before = Before::ReleasedOnceQueued;
    drop_at_every_await_point(fixture, "acquire_many_within(Wait::AtMost)", before, one_of_two, 6, acquire).await;
}
