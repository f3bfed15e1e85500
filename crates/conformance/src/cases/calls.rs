//! The waist itself, used without a recipe: its calls, and several entries that are sent at once.

use std::collections::BTreeSet;

use lockkeeper_core::{
    Advice, Departure, ENTRIES_MAX, Entry, ErrorKind, Extent, Freshness, Liveness, LivenessAt, LossReason, Mode,
    Operation, Part, QueueName, Ticket,
};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::speaker::{Speaker, Taken, entry, line, part_of, speakers};
use crate::waiting::{soon, until};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a call takes effect when it is made and not when it is polled", takes_effect_when_made),
        Case::new("a view shows every acknowledged entry, with its ticket, on one connection", shows_entries),
        Case::new("a view of a long queue shows a place what it waits for and how many are ahead", long_queue),
        Case::new("an entry is withdrawn by its ticket, whether its reply was seen or not", withdrawn_by_ticket),
        Case::new("a place is lost from the call on that withdraws it", lost_when_withdrawn),
        Case::new("withdrawing twice, or what was never there, does nothing", withdrawn_twice),
        Case::new("the departure of a contender that is gone is answered at once", gone_already),
        Case::new("a departure is told to all its waiters and to no others", told_to_all),
        Case::new("a session that is closed takes its entries with it and is lost for good", closed),
        Case::new("a place that is left before its session is closed stood until then", left_before_closing),
        Case::new("a session that is never taken leaves nothing", untaken),
    ]
}

/// How many sessions are closed with a removal under way.
const CLOSED_SESSIONS: usize = 100;

/// So many that a service may leave out most of them, and few enough for one call.
const LONG_QUEUE: usize = 200;

fn door() -> QueueName {
    line("door")
}

async fn take(speaker: &Speaker) -> Taken {
    speaker.take(&door(), Mode::Mutex).await
}

async fn withdraw(speaker: &Speaker, place: &Taken) {
    speaker.withdraw(&door(), place.ticket).await;
}

async fn takes_effect_when_made(fixture: &dyn Fixture) {
    let [ann, onlooker] = speakers(fixture).await;
    let entry = entry(Mode::Mutex);
    let ticket = entry.ticket;
    let unpolled = ann.session.enqueue_one(&door(), entry);
    until("the entry of an unpolled call", async || !onlooker.ids(&door()).await.is_empty()).await;
    drop(unpolled);
    drop(ann.session.withdraw(&door(), ticket));
    onlooker.until_ids(&door(), &[]).await;
}

async fn shows_entries(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (one, other) = (take(&ann).await, take(&bob).await);
    let (ahead, behind) = (&one.joined, &other.joined);
    assert_eq!((ahead.view.contenders.len(), behind.view.contenders.len()), (1, 2));
    let view = bob.view(&door()).await;
    assert_eq!(view.connection, behind.view.connection, "it is the same connection");
    let shown: Vec<_> = view.contenders.iter().map(|contender| (&contender.id, contender.ticket)).collect();
    assert_eq!(shown, [(&ahead.id, Some(one.ticket)), (&behind.id, Some(other.ticket))]);
    assert!(behind.token > ahead.token);
    assert!(ahead.standing.liveness(LivenessAt::Now).is_held() && behind.standing.liveness(LivenessAt::Now).is_held());
    withdraw(&ann, &one).await;
    withdraw(&bob, &other).await;
}

async fn long_queue(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let entries = (0..LONG_QUEUE).map(|_| entry(Mode::Mutex)).collect();
    let before = soon("the places", ann.session.enqueue(&door(), entries)).await.expect("the places are given");
    let (first, nearest) = (&before[0].id, &before[LONG_QUEUE - 1].id);
    let joined = take(&bob).await.joined;
    take(&ann).await;
    let seen = async |extent: Extent<'_>| {
        let view = soon("the view", bob.session.view(&door(), Freshness::Latest, extent)).await;
        view.expect("the queue can be looked at")
    };
    for view in [joined.view, seen(Extent::Around(Some(&joined.id))).await] {
        assert_eq!(view.ahead_of(&joined.id), Some(LONG_QUEUE), "how many stand ahead of it");
        assert_eq!(view.contenders.first().map(|first| &first.id), Some(first));
        let at = view.position(&joined.id).expect("it is shown");
        assert_eq!(view.contenders[at - 1].id, *nearest, "the one ahead of it");
        let is_only_one = view.contenders[..at - 1].iter().all(|other| other.id == *nearest);
        assert!(!is_only_one, "that another one ahead keeps it waiting too");
    }
    assert_eq!(seen(Extent::Around(None)).await.contenders.first().map(|first| &first.id), Some(first));
    assert_eq!(seen(Extent::Whole).await.contenders.len(), LONG_QUEUE + 2);
    ann.close().await;
    bob.close().await;
}

async fn withdrawn_by_ticket(fixture: &dyn Fixture) {
    let [ann] = speakers(fixture).await;
    let (seen, unseen) = (take(&ann).await, entry(Mode::Mutex));
    let ticket = unseen.ticket;
    drop(ann.session.enqueue_one(&door(), unseen));
    ann.withdraw(&door(), ticket).await;
    assert_eq!(ann.ids(&door()).await, std::slice::from_ref(&seen.joined.id));
    withdraw(&ann, &seen).await;
    assert_eq!(ann.ids(&door()).await, []);
}

async fn lost_when_withdrawn(fixture: &dyn Fixture) {
    let [ann] = speakers(fixture).await;
    let place = take(&ann).await;
    assert!(place.joined.standing.liveness(LivenessAt::Now).is_held());
    let withdrawing = ann.session.withdraw(&door(), place.ticket);
    assert!(!place.joined.standing.liveness(LivenessAt::Now).is_held(), "it is still believed");
    soon("the loss", place.joined.standing.lost()).await;
    soon("the withdrawal", withdrawing).await.expect("the place is left");
    assert!(ann.session.bond().liveness().is_held(), "the session stands");
}

async fn withdrawn_twice(fixture: &dyn Fixture) {
    let [ann] = speakers(fixture).await;
    let (place, never) = (take(&ann).await, entry(Mode::Mutex));
    let ticket = never.ticket;
    ann.withdraw(&door(), ticket).await;
    assert_eq!(ann.ids(&door()).await, std::slice::from_ref(&place.joined.id));
    for _ in 0..2 {
        withdraw(&ann, &place).await;
    }
    assert_eq!(ann.ids(&door()).await, []);
    // A withdrawal must not withdraw the contender that comes next.
    let next = ann.take_entry(&door(), never).await;
    assert_eq!(ann.ids(&door()).await, std::slice::from_ref(&next.joined.id));
    withdraw(&ann, &next).await;
}

async fn gone_already(fixture: &dyn Fixture) {
    let [ann] = speakers(fixture).await;
    let (ahead, mine) = (take(&ann).await, take(&ann).await);
    withdraw(&ann, &ahead).await;
    let connection = mine.joined.view.connection;
    let asking = ann.session.departure(&door(), Some(&mine.joined.id), &ahead.joined.id, connection);
    assert_eq!(soon("the answer", asking).await.expect("it can be asked"), Departure::Gone);
    withdraw(&ann, &mine).await;
}

async fn told_to_all(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (first, second) = (take(&ann).await, take(&bob).await);
    let (ahead, behind) = (&first.joined.id, &second.joined.id);
    let departure = |mine, ahead| bob.session.departure(&door(), mine, ahead, second.joined.view.connection);
    let told = [Some(behind), None].map(|mine| tokio::spawn(departure(mine, ahead)));
    let other = tokio::spawn(departure(None, behind));
    withdraw(&ann, &first).await;
    for told in told {
        let answer = soon("the event", told).await.expect("the task does not panic");
        assert_eq!(answer.expect("it can be asked"), Departure::Gone);
    }
    assert!(!other.is_finished(), "the other contender is still there");
    withdraw(&bob, &second).await;
    let answer = soon("the event", other).await.expect("the task does not panic");
    assert_eq!(answer.expect("it can be asked"), Departure::Gone);
}

async fn closed(fixture: &dyn Fixture) {
    let [ann, onlooker] = speakers(fixture).await;
    let place = take(&ann).await.joined;
    ann.close().await;
    assert_eq!(ann.session.bond().liveness(), Liveness::Lost(LossReason::Closed));
    assert_eq!(soon("the loss", ann.session.bond().lost()).await, LossReason::Closed);
    assert_eq!(place.standing.liveness(LivenessAt::Now), Liveness::Lost(LossReason::Closed));
    assert_eq!(soon("the loss", place.standing.lost()).await, LossReason::Closed);
    assert!(soon("the refusal", ann.session.enqueue_one(&door(), entry(Mode::Mutex))).await.is_err());
    onlooker.until_ids(&door(), &[]).await;
}

/// As by a guard that is the last user of its session: the close is called while the removal is under way.
async fn left_before_closing(fixture: &dyn Fixture) {
    for _ in 0..CLOSED_SESSIONS {
        let [ann] = speakers(fixture).await;
        let place = take(&ann).await;
        let (leaving, closing) = (ann.session.withdraw(&door(), place.ticket), ann.session.close());
        soon("the withdrawal", leaving).await.expect("the place stood until it was left");
        soon("the close", closing).await.expect("the service is told");
    }
}

async fn untaken(fixture: &dyn Fixture) {
    let client = fixture.client().await.expect("a client is opened");
    drop(client.backend().session());
    let [ann, onlooker] = speakers(fixture).await;
    take(&ann).await;
    drop(ann.session);
    onlooker.until_ids(&door(), &[]).await;
}

/// How many entries are sent at once, and how often.
const TOGETHER: usize = 7;
const ROUNDS: usize = 12;

pub(super) fn entries_together() -> Vec<Case> {
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
