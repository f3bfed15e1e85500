//! Several entries sent at once: all of them are taken in, or none.

use std::collections::BTreeSet;

use lockkeeper_core::{Advice, ENTRIES_MAX, Entry, ErrorKind, LivenessAt, Mode, Operation, Part, QueueName, Ticket};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::speaker::{Speaker, entry, part_of, speakers};
use crate::waiting::soon;

/// How many entries are sent at once, and how often.
const TOGETHER: usize = 7;
const ROUNDS: usize = 12;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("entries sent together stand together, in their order, each with its own token", stand_together),
        Case::new("no session ever sees a part of the entries that were sent together", never_in_part),
        Case::new("more entries than fit into one request are refused and none is taken in", too_many),
        Case::new("entries sent together are withdrawn one by one, whether the reply was seen or not", withdrawn),
        Case::new("entries sent together whose reply is lost are all taken in or undone", reply_lost)
            .needs(&[FaultKind::LoseReply]),
        Case::new("entries sent together end with their session", session_ends),
    ]
}

fn permits() -> QueueName {
    part_of("pool", Part::Permits)
}

fn entries(count: usize) -> (Vec<Entry>, Vec<Ticket>) {
    let entries: Vec<_> = (0..count).map(|_| entry(Mode::Permit)).collect();
    let tickets = entries.iter().map(|entry| entry.ticket).collect();
    (entries, tickets)
}

async fn tickets(speaker: &Speaker) -> Vec<Ticket> {
    let view = speaker.view(&permits()).await;
    view.contenders.iter().map(|contender| contender.ticket.expect("the ticket is shown")).collect()
}

async fn withdraw_all(speaker: &Speaker, tickets: Vec<Ticket>) {
    for ticket in tickets {
        speaker.withdraw(&permits(), ticket).await;
    }
}

async fn stand_together(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let before = ann.take(&permits(), Mode::Permit).await;
    let (entries, sent) = entries(TOGETHER);
    let answer = soon("the places", ann.session.enqueue(&permits(), entries)).await;
    let joined = answer.expect("the places are given");
    let after = bob.take(&permits(), Mode::Permit).await;
    assert_eq!(joined.len(), TOGETHER);
    let mut last = before.joined.token;
    for (one, ticket) in joined.iter().zip(&sent) {
        assert!(one.token > last, "tokens grow along the entries");
        last = one.token;
        let mine = one.view.contenders.iter().find(|contender| contender.id == one.id);
        assert_eq!(mine.and_then(|contender| contender.ticket), Some(*ticket), "each answer is that of its entry");
        assert_eq!(one.view.contenders.len(), 1 + TOGETHER, "each answer shows all of them");
        assert!(one.standing.liveness(LivenessAt::Now).is_held());
    }
    assert!(after.joined.token > last);
    let ids: BTreeSet<_> = joined.iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids.len(), TOGETHER);
    let all: BTreeSet<_> = tickets(&bob).await.into_iter().collect();
    let expected = sent.iter().copied().chain([before.ticket, after.ticket]);
    assert_eq!(all, expected.collect());
    bob.withdraw(&permits(), after.ticket).await;
    withdraw_all(&ann, sent).await;
    ann.withdraw(&permits(), before.ticket).await;
}

async fn never_in_part(fixture: &dyn Fixture) {
    let [ann, bob, eve] = speakers(fixture).await;
    let watching = async {
        let mut seen = eve.view(&permits()).await;
        while seen.contenders.len() < 2 * ROUNDS * TOGETHER {
            assert_eq!(seen.contenders.len() % TOGETHER, 0, "a part of what was sent together was seen");
            seen = eve.session.changed(&permits(), &seen).await.expect("the queue can be watched");
        }
    };
    let sending = async |speaker: &Speaker| {
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let (entries, sent) = entries(TOGETHER);
            let joined = speaker.session.enqueue(&permits(), entries).await.expect("the places are given");
            assert!(joined.iter().all(|one| one.view.contenders.len().is_multiple_of(TOGETHER)));
            all.extend(sent);
        }
        all
    };
    let all = async { tokio::join!(sending(&ann), sending(&bob), watching) };
    let (of_ann, of_bob, ()) = soon("all places and their sight", all).await;
    withdraw_all(&ann, of_ann).await;
    withdraw_all(&bob, of_bob).await;
}

async fn too_many(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let (entries, _) = entries(ENTRIES_MAX + 1);
    let error = soon("the refusal", ann.session.enqueue(&permits(), entries)).await.expect_err("it is too many");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::LimitReached, Advice::Permanent), "{error:?}");
    assert_eq!(tickets(&ann).await, []);
}

async fn withdrawn(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let (seen, seen_tickets) = entries(3);
    let answer = soon("the places", ann.session.enqueue(&permits(), seen)).await;
    answer.expect("the places are given");
    let (unseen, unseen_tickets) = entries(3);
    drop(ann.session.enqueue(&permits(), unseen));
    withdraw_all(&ann, unseen_tickets).await;
    assert_eq!(tickets(&ann).await.len(), 3);
    ann.withdraw(&permits(), seen_tickets[1]).await;
    let left: BTreeSet<_> = tickets(&ann).await.into_iter().collect();
    assert_eq!(left, [seen_tickets[0], seen_tickets[2]].into());
    withdraw_all(&ann, seen_tickets).await;
    assert_eq!(tickets(&ann).await, []);
}

async fn reply_lost(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let (entries, sent) = entries(TOGETHER);
    ann.inflict(Fault::LoseReply(Operation::Join)).await;
    match soon("an answer", ann.session.enqueue(&permits(), entries)).await {
        // A service that finds the tickets again can still answer.
        Ok(joined) => assert_eq!((joined.len(), tickets(&ann).await.len()), (TOGETHER, TOGETHER)),
        Err(error) => assert_ne!(error.advice(), Advice::Permanent, "{error:?}"),
    }
    withdraw_all(&ann, sent).await;
    assert_eq!(tickets(&ann).await, []);
}

async fn session_ends(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (entries, _) = entries(TOGETHER);
    let answer = soon("the places", ann.session.enqueue(&permits(), entries)).await;
    let joined = answer.expect("the places are given");
    ann.close().await;
    bob.until_ids(&permits(), &[]).await;
    assert!(joined.iter().all(|one| !one.standing.liveness(LivenessAt::Now).is_held()));
}
