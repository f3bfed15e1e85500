//! Entries that share another's place, or outlive their session; and requests to another client's contender.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    Advice, ContenderId, Departure, Entry, ErrorKind, FencingToken, Lifetime, Liveness, LivenessAt, LossReason, Mode,
    Operation, Rank, Request, Revocation,
};
use lockkeeper_recipes::Hold;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, granted, release};
use crate::speaker::{Speaker, Taken, entry, ids_of, line, speakers};
use crate::waiting::{at_most, soon};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an entry beside another stands right behind it, with its token, before all that came after", beside),
        Case::new("an entry beside another keeps its place when that one leaves", outlives_its_anchor),
        Case::new("an entry beside one that is gone is refused and leaves nothing", anchor_gone),
        Case::new(
            "an entry beside another is withdrawn by its ticket, whether its reply was seen or not",
            withdrawn_beside,
        ),
        Case::new("an entry beside another whose reply is lost is taken in or undone", reply_lost)
            .needs(&[FaultKind::LoseReply]),
    ]
}

fn entry_beside(mode: Mode, anchor: &ContenderId) -> Entry {
    let mut entry = entry(mode);
    entry.rank = Rank::With(anchor.clone());
    entry
}

async fn beside(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let door = line("door");
    let anchor = ann.take(&door, Mode::Write).await;
    let next = bob.take(&door, Mode::Write).await;
    let last = bob.take(&door, Mode::Read).await;
    let beside = ann.take_entry(&door, entry_beside(Mode::Read, &anchor.joined.id)).await;
    let expected = [&anchor, &beside, &next, &last].map(|place| place.joined.id.clone());
    assert_eq!(beside.joined.view.ahead_of(&beside.joined.id), Some(1), "it sees where it stands");
    assert_eq!(ann.ids(&door).await, expected);
    assert_eq!(bob.ids(&door).await, expected);
    let modes: Vec<_> = bob.view(&door).await.contenders.iter().map(|contender| contender.mode).collect();
    assert_eq!(modes, [Mode::Write, Mode::Read, Mode::Write, Mode::Read]);
    assert_eq!(beside.joined.token, anchor.joined.token);
    assert!(next.joined.token > beside.joined.token && last.joined.token > next.joined.token);
    assert!(beside.joined.standing.liveness(LivenessAt::Now).is_held());
    let tokens: Vec<_> = bob.inspect(&door).await.iter().map(|contender| contender.token).collect();
    // A service need not show tokens; if it does, a place that is shared has one.
    assert!(tokens[0].is_none() || (tokens[0] == tokens[1] && tokens[2] > tokens[1]), "{tokens:?}");
    for (speaker, place) in [(&ann, beside), (&ann, anchor), (&bob, next), (&bob, last)] {
        speaker.withdraw(&door, place.ticket).await;
    }
}

/// As in a downgrade: a waiter for the first is told that it is gone, and finds the one beside it.
async fn outlives_its_anchor(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let door = line("door");
    let anchor = ann.take(&door, Mode::Write).await;
    let next = bob.take(&door, Mode::Write).await;
    let waiting = bob.session.departure(&door, Some(&next.joined.id), &anchor.joined.id, next.joined.view.connection);
    let beside = ann.take_entry(&door, entry_beside(Mode::Read, &anchor.joined.id)).await;
    ann.withdraw(&door, anchor.ticket).await;
    soon("the event", waiting).await.expect("it can be asked");
    let view = bob.view(&door).await;
    assert_eq!(ids_of(&view), [beside.joined.id.clone(), next.joined.id.clone()]);
    assert!(beside.joined.standing.liveness(LivenessAt::Now).is_held());
    let waiting = bob.session.departure(&door, Some(&next.joined.id), &beside.joined.id, view.connection);
    ann.withdraw(&door, beside.ticket).await;
    assert_eq!(soon("the event", waiting).await.expect("it can be asked"), Departure::Gone);
    assert_eq!(bob.ids(&door).await, std::slice::from_ref(&next.joined.id));
    bob.withdraw(&door, next.ticket).await;
}

async fn anchor_gone(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let door = line("door");
    let anchor = ann.take(&door, Mode::Write).await;
    ann.withdraw(&door, anchor.ticket).await;
    let other = ann.take(&door, Mode::Write).await;
    let sent = ann.session.enqueue_one(&door, entry_beside(Mode::Read, &anchor.joined.id));
    let error = soon("the refusal", sent).await.expect_err("there is no place to share");
    assert_eq!(error.advice(), Advice::Permanent, "{error:?}");
    assert_eq!(ann.ids(&door).await, [other.joined.id]);
    ann.withdraw(&door, other.ticket).await;
}

async fn withdrawn_beside(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let door = line("door");
    let anchor = ann.take(&door, Mode::Write).await;
    let seen = ann.take_entry(&door, entry_beside(Mode::Read, &anchor.joined.id)).await;
    let unseen = entry_beside(Mode::Read, &anchor.joined.id);
    let ticket = unseen.ticket;
    drop(ann.session.enqueue_one(&door, unseen));
    ann.withdraw(&door, ticket).await;
    assert_eq!(ann.ids(&door).await, [anchor.joined.id.clone(), seen.joined.id.clone()]);
    ann.withdraw(&door, seen.ticket).await;
    assert_eq!(ann.ids(&door).await, std::slice::from_ref(&anchor.joined.id));
    ann.withdraw(&door, anchor.ticket).await;
}

async fn reply_lost(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let door = line("door");
    let anchor = ann.take(&door, Mode::Write).await;
    let beside = entry_beside(Mode::Read, &anchor.joined.id);
    let ticket = beside.ticket;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    match soon("an answer", ann.session.enqueue_one(&door, beside)).await {
        // A service that finds the ticket again can still answer.
        Ok(joined) => {
            assert_eq!(ids_of(&joined.view), [anchor.joined.id.clone(), joined.id]);
            assert_eq!(joined.token, anchor.joined.token);
        }
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error:?}"),
    }
    ann.withdraw(&door, ticket).await;
    assert_eq!(ann.ids(&door).await, std::slice::from_ref(&anchor.joined.id));
    ann.withdraw(&door, anchor.ticket).await;
}

const REASON: &str = "the door is being painted";

pub(super) fn persistent_entries() -> Vec<Case> {
    vec![
        Case::new("a persistent entry outlives its session's closing and keeps all others out", async |fixture| {
            outlives(fixture, async |ann| ann.close().await).await;
        }),
        Case::new("a persistent entry outlives its session's end", async |fixture| {
            outlives(fixture, async |ann| ann.inflict(Fault::ExpireSession).await).await;
        })
        .needs(&[FaultKind::ExpireSession]),
        Case::new("a persistent entry is withdrawn by its ticket like any other", withdrawn),
        Case::new("a persistent entry says why it stands there, and others say nothing", says_why),
    ]
}

fn persistent() -> Entry {
    let mut entry = entry(Mode::Mutex);
    entry.lifetime = Lifetime::Persistent { reason: Arc::from(REASON) };
    entry
}

/// No contender passes the entry, and a caller that knows its token ends it.
async fn keeps_out_until_broken(fixture: &dyn Fixture, frozen: Taken) {
    let (bob, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let door = line("door");
    assert_eq!(eve.ids(&door).await, std::slice::from_ref(&frozen.joined.id));
    assert!(bob.try_lock("door").await.is_none());
    let waiting = bob.queue_up("door").await;
    let shown = eve.inspect(&door).await;
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0].frozen.as_deref(), Some(REASON));
    assert!(!waiting.is_finished());
    let breaking = Request::Break { token: frozen.joined.token };
    let broken = soon("the answer", eve.session.request(&door, &frozen.joined.id, breaking)).await;
    assert!(broken.expect("it can be asked"), "it was there, with this token");
    let guard = granted(waiting).await;
    assert!(guard.fencing_token() > frozen.joined.token);
    release(guard).await;
}

/// Its session ends, in this way, with the other entries of it.
async fn outlives(fixture: &dyn Fixture, end: impl AsyncFnOnce(Speaker)) {
    let ann = Speaker::enter(fixture).await;
    let frozen = ann.take_entry(&line("door"), persistent()).await;
    let mortal = ann.take(&line("door"), Mode::Mutex).await;
    assert_ne!(mortal.joined.id, frozen.joined.id);
    end(ann).await;
    let onlooker = Speaker::enter(fixture).await;
    onlooker.until_ids(&line("door"), std::slice::from_ref(&frozen.joined.id)).await;
    keeps_out_until_broken(fixture, frozen).await;
}

async fn withdrawn(fixture: &dyn Fixture) {
    let (ann, bob) = (Speaker::enter(fixture).await, Party::enter(fixture).await);
    let frozen = ann.take_entry(&line("door"), persistent()).await;
    let waiting = bob.queue_up("door").await;
    ann.withdraw(&line("door"), frozen.ticket).await;
    release(granted(waiting).await).await;
    let unseen = persistent();
    let ticket = unseen.ticket;
    drop(ann.session.enqueue_one(&line("door"), unseen));
    ann.withdraw(&line("door"), ticket).await;
    assert_eq!(ann.ids(&line("door")).await, []);
}

async fn says_why(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let door = line("door");
    let first = ann.take(&door, Mode::Mutex).await;
    let frozen = ann.take_entry(&door, persistent()).await;
    let shown: Vec<_> = ann.inspect(&door).await.into_iter().map(|contender| contender.frozen).collect();
    assert_eq!(shown, [None, Some(REASON.to_owned())]);
    ann.withdraw(&door, first.ticket).await;
    ann.withdraw(&door, frozen.ticket).await;
}

pub(super) fn requests() -> Vec<Case> {
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
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Lost(LossReason::Broken), Advice::AskAgain));
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
