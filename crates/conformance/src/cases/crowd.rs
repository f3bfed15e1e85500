//! Many contenders, and many calls at once: which one is next ahead, and the order in which calls take effect.

use std::time::Duration;

use lockkeeper_core::{ContenderId, Entry, Extent, Freshness, Mode, Operation, QueueName, QueueView, Ticket};
use lockkeeper_recipes::decide::{Decision, decide};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::speaker::{Speaker, Taken, entry, line, speakers};
use crate::waiting::soon;

/// How many stand ahead: so many that a service may leave out most of them.
const CROWD: usize = 200;

/// How many of those nearest to the tail leave again, so that the next one ahead stands far from the tail.
const LEAVING: usize = 50;

/// How many calls are made without waiting for any: so many that requests overtake one another on any connection, if
/// nothing keeps them in order.
const UNAWAITED: usize = 300;

/// How often a lock is given back and asked for again in one go.
const TURNS: usize = 100;

/// How long a withdrawn join is looked for where sessions have no timeout.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// The pause between two of these looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("behind 200 others each join names truly the one ahead", named_ahead),
        Case::new("behind 200 others a departure leaves each waiter truly the next one ahead", named_after_departures),
        Case::new("300 joins that are not awaited stand in the order of the calls", unawaited),
        Case::new("releases and joins that are not awaited take effect in the order of the calls", release_and_join),
        Case::new(
            "a look shows none that was withdrawn before it, also beside one that was removed",
            withdrawn_together,
        )
        .needs(&[FaultKind::RemoveContender]),
        Case::new("a withdrawal after a lost reply is final", withdrawn_for_good)
            .needs(&[FaultKind::LoseReply])
            .outlives_sessions(),
    ]
}

fn door() -> QueueName {
    line("door")
}

/// The contender that this one for a mutex waits for, and whether nothing else keeps it waiting.
fn ahead_of(id: &ContenderId, view: &QueueView) -> Option<(ContenderId, bool)> {
    match decide(Mode::Mutex, id, view) {
        Decision::Granted => None,
        Decision::WaitFor { ahead, departure_grants } => Some((ahead, departure_grants)),
        decision => panic!("{id} stands in a queue of mutexes: {decision:?}"),
    }
}

/// Takes many places, one after the other, from two sessions in turn.
async fn crowd(ann: &Speaker, bob: &Speaker) -> Vec<Taken> {
    let mut crowd = Vec::with_capacity(CROWD);
    for number in 0..CROWD {
        let speaker = if number % 2 == 0 { ann } else { bob };
        crowd.push(speaker.take(&door(), Mode::Mutex).await);
    }
    crowd
}

/// Checks that a view says truly which contender this one waits for, and how many stand ahead of it.
fn check(view: &QueueView, id: &ContenderId, before: &[&ContenderId]) {
    assert_eq!(view.ahead_of(id), Some(before.len()), "how many stand ahead of it");
    assert_eq!(view.contenders.first().map(|first| &first.id), Some(*before.first().unwrap_or(&id)), "the first");
    let expected = before.last().map(|&nearest| (nearest.clone(), before.len() == 1));
    assert_eq!(ahead_of(id, view), expected, "the one ahead of it");
}

async fn around(speaker: &Speaker, id: &ContenderId) -> QueueView {
    let looking = speaker.session.view(&door(), Freshness::Latest, Extent::Around(Some(id)));
    soon("the view", looking).await.expect("the queue can be looked at")
}

async fn named_ahead(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let crowd = crowd(&ann, &bob).await;
    let ids: Vec<_> = crowd.iter().map(|taken| &taken.joined.id).collect();
    for (at, taken) in crowd.iter().enumerate() {
        check(&taken.joined.view, ids[at], &ids[..at]);
    }
    let eve = Speaker::enter(fixture).await;
    let last = eve.take(&door(), Mode::Mutex).await;
    check(&last.joined.view, &last.joined.id, &ids);
    for at in [0, 1, CROWD / 2, CROWD - 1] {
        check(&around(&eve, ids[at]).await, ids[at], &ids[..at]);
    }
    check(&around(&eve, &last.joined.id).await, &last.joined.id, &ids);
    for speaker in [ann, bob, eve] {
        speaker.close().await;
    }
}

async fn named_after_departures(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let crowd = crowd(&ann, &bob).await;
    let waiting = bob.take(&door(), Mode::Mutex).await;
    let leave = async |at: usize| {
        let speaker = if at.is_multiple_of(2) { &ann } else { &bob };
        speaker.withdraw(&door(), crowd[at].ticket).await;
    };
    let mut left = ids_of(&crowd);
    for at in (CROWD - LEAVING..CROWD).rev() {
        leave(at).await;
        left.pop();
    }
    check(&around(&bob, &waiting.joined.id).await, &waiting.joined.id, &left);
    // One that joins now stands behind the one that waits, and far from the others.
    let next = ann.take(&door(), Mode::Mutex).await;
    let before: Vec<_> = left.iter().copied().chain([&waiting.joined.id]).collect();
    check(&next.joined.view, &next.joined.id, &before);
    bob.withdraw(&door(), waiting.ticket).await;
    let next = bob.take(&door(), Mode::Mutex).await;
    assert_eq!(next.joined.view.ahead_of(&next.joined.id), Some(CROWD - LEAVING + 1));
    // All others leave from the head on.
    for at in 0..CROWD - LEAVING {
        leave(at).await;
    }
    assert_eq!(around(&bob, &next.joined.id).await.ahead_of(&next.joined.id), Some(1));
    ann.close().await;
    bob.until_ids(&door(), std::slice::from_ref(&next.joined.id)).await;
    assert_eq!(ahead_of(&next.joined.id, &around(&bob, &next.joined.id).await), None, "it is the first");
    bob.close().await;
}

fn ids_of(crowd: &[Taken]) -> Vec<&ContenderId> {
    crowd.iter().map(|taken| &taken.joined.id).collect()
}

async fn tickets(speaker: &Speaker) -> Vec<Option<Ticket>> {
    speaker.view(&door()).await.contenders.iter().map(|contender| contender.ticket).collect()
}

async fn unawaited(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let entries: Vec<Entry> = (0..UNAWAITED).map(|_| entry(Mode::Mutex)).collect();
    let expected: Vec<_> = entries.iter().map(|entry| Some(entry.ticket)).collect();
    let joining: Vec<_> = entries.into_iter().map(|entry| ann.session.enqueue_one(&door(), entry)).collect();
    // The last is asked for first: the order of the polls does not matter.
    let mut last = None;
    for joining in joining.into_iter().rev() {
        let place = soon("the place", joining).await.expect("the place is given");
        assert!(last.is_none_or(|last| place.token < last), "tokens grow along the queue");
        last = Some(place.token);
    }
    assert_eq!(tickets(&ann).await, expected);
    ann.close().await;
}

async fn release_and_join(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let behind = {
        let first = ann.take(&door(), Mode::Mutex).await;
        let behind = bob.take(&door(), Mode::Mutex).await;
        drop(ann.session.withdraw(&door(), first.ticket));
        behind
    };
    let mut joining = Vec::with_capacity(TURNS);
    let mut staying = vec![Some(behind.ticket)];
    let mut previous = None;
    for turn in 0..TURNS {
        let entry = entry(Mode::Mutex);
        let ticket = entry.ticket;
        // A withdrawal that comes before the join of the same ticket takes nothing away.
        drop(ann.session.withdraw(&door(), ticket));
        joining.push(ann.session.enqueue_one(&door(), entry));
        if let Some(previous) = previous.take() {
            drop(ann.session.withdraw(&door(), previous));
        }
        if turn % 10 == 9 { staying.push(Some(ticket)) } else { previous = Some(ticket) }
    }
    for joining in joining.into_iter().rev() {
        // One that was withdrawn behind its join may be refused; one that stays must have its place.
        let _ = soon("the answer", joining).await;
    }
    assert_eq!(tickets(&ann).await, staying);
    // The first of them all is still ahead, and each one that was given back is gone.
    let last = ann.take(&door(), Mode::Mutex).await;
    assert_eq!(last.joined.view.ahead_of(&last.joined.id), Some(staying.len()));
    assert_eq!(last.joined.view.contenders.first().map(|first| &first.id), Some(&behind.joined.id));
    ann.close().await;
    bob.until_ids(&door(), std::slice::from_ref(&behind.joined.id)).await;
    bob.close().await;
}

/// What is left in one go may reach the service as one request, which one that is gone already must not hold up.
async fn withdrawn_together(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let mut leaving = Vec::with_capacity(LEAVING);
    for _ in 0..LEAVING {
        leaving.push(ann.take(&door(), Mode::Mutex).await);
    }
    let contender = leaving[LEAVING / 2].joined.id.clone();
    bob.inflict(Fault::RemoveContender { queue: door(), contender, stands_still: false }).await;
    for taken in &leaving {
        drop(ann.session.withdraw(&door(), taken.ticket));
    }
    assert_eq!(tickets(&ann).await, []);
    ann.close().await;
    bob.close().await;
}

/// The service must not take the join in later, not even when the session would have ended without another sign of
/// life.
async fn withdrawn_for_good(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let entry = entry(Mode::Mutex);
    let ticket = entry.ticket;
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    let joining = ann.session.enqueue_one(&door(), entry);
    // A service that finds the ticket again can still answer.
    drop(soon("an answer", joining).await);
    ann.withdraw(&door(), ticket).await;
    let looked_for = fixture.session_timeout().unwrap_or(LOOKED_FOR);
    let looking = async {
        loop {
            for speaker in [&ann, &bob] {
                assert_eq!(tickets(speaker).await, [], "it was withdrawn");
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let looked = tokio::time::timeout(looked_for, looking).await;
    assert!(looked.is_err(), "looked for all of that time");
    let next = ann.take(&door(), Mode::Mutex).await;
    assert_eq!(next.joined.view.contenders.len(), 1);
    ann.withdraw(&door(), next.ticket).await;
}
