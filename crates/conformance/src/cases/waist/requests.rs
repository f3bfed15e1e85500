//! Requests to another client's contender: to give up, or to be removed.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, FencingToken, Liveness, LossReason, Mode, Request, Revocation};
use lockkeeper_recipes::Hold;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, granted, release};
use crate::polls::at_most;
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a holder that is asked to give up is told why and in which time", told_to_yield),
        Case::new("an earlier request to give up is told to a holder that asks later, each time", told_later),
        Case::new("a request to give up is told to the contender that it is for and to no other", told_to_one),
        Case::new("a request to give up made while the holder was cut off is told after healing", told_after_healing)
            .needs(&[FaultKind::Cut]),
        Case::new("asking something of a contender that is not there says so", not_there).given_back(),
        Case::new("a contender is broken by its token, says so, and the next is granted the lock", broken),
        Case::new("breaking with another token changes nothing", stale_token).given_back(),
        Case::new("a waiter that is broken is refused and disturbs no other", waiter_broken).strict(),
    ]
}

fn please() -> Revocation {
    Revocation::new(Some("the backup wants in; \"now\"".to_owned()), Some(Duration::from_millis(2_500)))
}

/// Asks something of a contender of `door`.
async fn ask(speaker: &Speaker, hold: &Hold, request: Request) -> bool {
    let asking = speaker.session.request(&line("door"), hold.contender(), request);
    soon("the answer", asking).await.expect("it can be asked")
}

async fn told_to_yield(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    let hold = guard.hold().clone();
    let telling = tokio::spawn(async move { hold.revoked().await });
    assert!(ask(&eve, guard.hold(), Request::Yield(please())).await);
    assert_eq!(soon("the request", telling).await.expect("the task does not panic"), please());
    assert!(guard.hold().is_held(), "it is a request");
    let shown = eve.inspect(&line("door")).await;
    assert_eq!(shown[0].revocation, Some(please()));
    assert!(shown[0].owner.is_some(), "who it is can still be seen");
    release(guard).await;
}

async fn told_later(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    assert!(ask(&eve, guard.hold(), Request::Yield(please())).await);
    for _ in 0..2 {
        assert_eq!(soon("the request", guard.hold().revoked()).await, please());
    }
    let nothing_said = Revocation::default();
    let window = ann.lock("window").await;
    let asking = eve.session.request(&line("window"), window.hold().contender(), Request::Yield(nothing_said.clone()));
    assert!(soon("the answer", asking).await.expect("it can be asked"));
    assert_eq!(soon("the request", window.hold().revoked()).await, nothing_said);
    release(window).await;
    release(guard).await;
}

async fn told_to_one(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    let (door, window) = (ann.lock("door").await, ann.lock("window").await);
    let waiting = bob.queue_up("door").await;
    assert!(ask(&eve, door.hold(), Request::Yield(please())).await);
    assert_eq!(soon("the request", door.hold().revoked()).await, please());
    assert!(at_most(1, window.hold().revoked()).await.is_none());
    release(door).await;
    let next = granted(waiting).await;
    assert!(at_most(1, next.hold().revoked()).await.is_none(), "it was asked of the one before");
    assert_eq!(eve.inspect(&line("door")).await[0].revocation, None);
    release(next).await;
    release(window).await;
}

async fn told_after_healing(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    let hold = guard.hold().clone();
    let telling = tokio::spawn(async move { hold.revoked().await });
    ann.inflict(Fault::Cut).await;
    assert!(ask(&eve, guard.hold(), Request::Yield(please())).await);
    ann.inflict(Fault::Heal).await;
    assert_eq!(soon("the request", telling).await.expect("the task does not panic"), please());
    release(guard).await;
}

async fn not_there(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    let (gone, token) = (guard.hold().clone(), guard.fencing_token());
    release(guard).await;
    let next = ann.lock("door").await;
    assert!(!ask(&eve, &gone, Request::Yield(please())).await);
    assert!(!ask(&eve, &gone, Request::Break { token }).await);
    let elsewhere = eve.session.request(&line("window"), next.hold().contender(), Request::Yield(please()));
    assert!(!soon("the answer", elsewhere).await.expect("it can be asked"), "it stands in another queue");
    assert!(next.hold().is_held());
    assert!(at_most(1, next.hold().revoked()).await.is_none());
    release(next).await;
}

async fn broken(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    let other = ann.lock("window").await;
    let waiting = bob.queue_up("door").await;
    let token = guard.fencing_token();
    assert!(ask(&eve, guard.hold(), Request::Break { token }).await);
    let next = granted(waiting).await;
    let hold = guard.hold().clone();
    assert_eq!(soon("the loss", hold.lost()).await, LossReason::Broken);
    assert_eq!(hold.liveness(), Liveness::Lost(LossReason::Broken));
    let error = soon("the release", guard.release()).await.expect_err("the hold was lost");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Lost(LossReason::Broken), Advice::Permanent));
    assert!(next.hold().is_held() && next.fencing_token() > token);
    assert!(other.hold().is_held(), "the session goes on");
    release(next).await;
    release(other).await;
    release(ann.lock("door").await).await;
}

async fn stale_token(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    let earlier = ann.lock("door").await;
    let stale = earlier.fencing_token();
    release(earlier).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    let grant = guard.fencing_token().as_u64();
    let next = FencingToken::new(grant + 1, 0).expect("it is a token");
    for token in [stale, next] {
        assert!(!ask(&eve, guard.hold(), Request::Break { token }).await, "{token} is not its token");
    }
    assert_eq!(eve.ids(&line("door")).await.len(), 2);
    assert!(guard.hold().is_held() && !waiting.is_finished());
    release(guard).await;
    release(granted(waiting).await).await;
}

async fn waiter_broken(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    let door = line("door");
    let guard = ann.lock("door").await;
    let middle = eve.take(&door, Mode::Mutex).await;
    let waiting = bob.queue_up("door").await;
    let refused = ann.queue_up("door").await;
    let id = eve.ids(&door).await[3].clone();
    let others = bob.journal.count(is_joined);
    // The queue shows no tokens; an operator reads them where they are shown, or knows its own.
    let asking = eve.session.request(&door, &middle.joined.id, Request::Break { token: middle.joined.token });
    assert!(soon("the answer", asking).await.expect("it can be asked"));
    assert_eq!(soon("the event", middle.joined.standing.lost()).await, LossReason::Broken);
    if let Some(token) = eve.inspect(&door).await[2].token {
        let asking = eve.session.request(&door, &id, Request::Break { token });
        assert!(soon("the answer", asking).await.expect("it can be asked"));
        let outcome = soon("the refusal", refused).await.expect("the task does not panic");
        assert_eq!(outcome.expect_err("it was broken").kind(), ErrorKind::Removed);
        release(guard).await;
        release(granted(waiting).await).await;
    } else {
        release(guard).await;
        release(granted(waiting).await).await;
        release(granted(refused).await).await;
    }
    assert_eq!(bob.journal.count(is_joined), others, "it kept its place");
}
