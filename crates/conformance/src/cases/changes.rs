//! Waiting for a change of a queue: each change is told, none is missed.

use lockkeeper_core::{ErrorKind, Mode, QueueName, QueueView, Result};
use tokio::task::JoinHandle;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::speaker::{Speaker, ids_of, part_of, speakers};
use crate::waiting::{at_most, soon};

/// How many changes are made one after the other, each to be seen.
const CHANGES: usize = 100;

pub(super) fn cases() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("a change of another queue ends no wait for a change", not_told_of_others),
        Case::new("of many changes in a row none is missed", none_missed),
        cutting(Case::new("what changed while the connection was cut is shown after healing", missed_while_cut)),
        cutting(Case::new("after a cut and a healing the queue is shown, changed or not", shown_after_healing)),
        Case::new("a session that waits for a change hears that it has ended", session_ends)
            .needs(&[FaultKind::ExpireSession]),
    ]
}

/// Returns the queue whose changes are told, and the mode of its contenders: permits, whose changes matter most, or
/// what the service carries instead.
fn watched(speaker: &Speaker) -> (QueueName, Mode) {
    let (part, mode) = speaker.places().next().expect("the service carries a kind of lock");
    (part_of("pool", part), mode)
}

async fn not_told_of_others(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (pool, mode) = watched(&bob);
    let place = ann.take(&pool, mode).await;
    let seen = bob.view(&pool).await;
    let mut waiting = Box::pin(bob.session.changed(&pool, &seen));
    let other_part = bob.places().find(|&(part, _)| part != pool.part());
    let other_part = other_part.map(|(part, mode)| (part_of("pool", part), mode));
    for (other, mode) in other_part.into_iter().chain([(part_of("puddle", pool.part()), mode)]) {
        let elsewhere = ann.take(&other, mode).await;
        ann.withdraw(&other, elsewhere.ticket).await;
        // An answer of the service later than those changes: had they been told, the event would be here.
        bob.view(&pool).await;
        assert!(at_most(1, &mut waiting).await.is_none(), "told of a change of another queue");
    }
    ann.withdraw(&pool, place.ticket).await;
    let view = soon("the event", waiting).await.expect("it can be asked");
    assert_eq!(ids_of(&view), []);
}

/// The watcher takes part in each step, so a change that is not told leads to an endless wait.
async fn none_missed(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (pool, mode) = watched(&bob);
    let mut seen = bob.view(&pool).await;
    for round in 0..CHANGES {
        // Sometimes the wait comes first, sometimes the change.
        let early = (round % 2 == 0).then(|| tokio::spawn(bob.session.changed(&pool, &seen)));
        let place = ann.take(&pool, mode).await;
        let waiting = early.unwrap_or_else(|| tokio::spawn(bob.session.changed(&pool, &seen)));
        seen = soon("the event", waiting).await.expect("the task does not panic").expect("it can be asked");
        let shown: Vec<_> = seen.contenders.iter().map(|shown| (&shown.id, shown.ticket, shown.mode)).collect();
        assert_eq!(shown, [(&place.joined.id, Some(place.ticket), mode)], "round {round}");
        let changed = bob.session.changed(&pool, &seen);
        let ((), told) = tokio::join!(ann.withdraw(&pool, place.ticket), soon("the event", changed));
        seen = told.expect("it can be asked");
        assert_eq!(ids_of(&seen), [], "round {round}");
    }
}

async fn missed_while_cut(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (pool, mode) = watched(&bob);
    let place = ann.take(&pool, mode).await;
    let (_, waiting) = wait_under_way(&bob, &pool).await;
    bob.inflict(Fault::Cut).await;
    ann.withdraw(&pool, place.ticket).await;
    let next = ann.take(&pool, mode).await;
    assert!(!waiting.is_finished(), "no event can have reached it");
    bob.inflict(Fault::Heal).await;
    let mut view = soon("the event", waiting).await.expect("the task does not panic").expect("it can be asked");
    while ids_of(&view) != [next.joined.id.clone()] {
        view = soon("the event", bob.session.changed(&pool, &view)).await.expect("it can be asked");
    }
    ann.withdraw(&pool, next.ticket).await;
}

/// Begins to wait for a change of what is seen, and returns both once the wait is under way.
async fn wait_under_way(speaker: &Speaker, queue: &QueueName) -> (QueueView, JoinHandle<Result<QueueView>>) {
    let seen = speaker.view(queue).await;
    let waiting = tokio::spawn(speaker.session.changed(queue, &seen));
    // A request behind it on the same connection.
    speaker.view(queue).await;
    (seen, waiting)
}

async fn shown_after_healing(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (pool, mode) = watched(&bob);
    let place = ann.take(&pool, mode).await;
    let (seen, waiting) = wait_under_way(&bob, &pool).await;
    bob.inflict(Fault::Cut).await;
    bob.inflict(Fault::Heal).await;
    let view = soon("a look", waiting).await.expect("the task does not panic").expect("it can be asked");
    assert_eq!(ids_of(&view), [place.joined.id]);
    assert_ne!(view.connection, seen.connection, "it is another connection");
    ann.withdraw(&pool, place.ticket).await;
}

async fn session_ends(fixture: &dyn Fixture) {
    let bob = Speaker::enter(fixture).await;
    let (pool, _) = watched(&bob);
    let (mut seen, mut waiting) = wait_under_way(&bob, &pool).await;
    bob.inflict(Fault::ExpireSession).await;
    let error = loop {
        match soon("the event", waiting).await.expect("the task does not panic") {
            // Of several servers, one that has not heard of the end yet may take the session on for a moment.
            Ok(view) if view.connection != seen.connection => seen = view,
            Ok(view) => panic!("the session has ended: {view:?}"),
            Err(error) => break error,
        }
        waiting = tokio::spawn(bob.session.changed(&pool, &seen));
    };
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
}
