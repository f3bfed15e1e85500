//! Entries that share another's place: right behind it, with its token.

use lockkeeper_core::{Advice, ContenderId, Departure, Entry, LivenessAt, Mode, Operation, Rank};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::speaker::{Speaker, entry, ids_of, line, speakers};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an entry beside another stands right behind it, with its token, before all that came after", beside),
        Case::new("an entry beside another keeps its place when that one leaves", outlives_its_anchor),
        Case::new("an entry beside one that is gone is refused and leaves nothing", anchor_gone),
        Case::new("an entry beside another is withdrawn by its ticket, whether its reply was seen or not", withdrawn),
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

async fn withdrawn(fixture: &dyn Fixture) {
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
