//! The waist itself, used without a recipe.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    Backend, ContenderId, Departure, Enqueued, Entry, Extent, Freshness, Liveness, LossReason, Mode, Owner, QueueName,
    Session, Ticket,
};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("entries of one session stand in the order of the calls", order_of_calls),
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
    QueueName::new("door").expect("the name is valid")
}

fn entry(ticket: Ticket) -> Entry {
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

fn ticket() -> Ticket {
    Ticket::mint().expect("the system gives randomness")
}

/// A client's backend and a session of it.
async fn session(fixture: &dyn Fixture) -> (Arc<dyn Backend>, Arc<dyn Session>) {
    let backend = fixture.client().await.expect("a client is opened").backend();
    let session = soon("the session", backend.session()).await.expect("a session is opened");
    (backend, session)
}

async fn join(session: &Arc<dyn Session>, ticket: Ticket) -> Enqueued {
    let joining = session.enqueue_one(&door(), entry(ticket));
    soon("the place", joining).await.expect("the place is given")
}

async fn ids(session: &Arc<dyn Session>) -> Vec<ContenderId> {
    let view = soon("the view", session.view(&door(), Freshness::Latest, Extent::Whole))
        .await
        .expect("the queue can be looked at");
    view.contenders.iter().map(|contender| contender.id.clone()).collect()
}

async fn withdraw(session: &Arc<dyn Session>, ticket: Ticket) {
    let withdrawing = session.withdraw(&door(), ticket);
    soon("the withdrawal", withdrawing).await.expect("the place is left");
}

/// Waits until the queue holds these contenders and no others.
async fn until_ids(session: &Arc<dyn Session>, expected: &[ContenderId]) {
    let mut seen = ids(session).await;
    let look = async {
        while seen != expected {
            tokio::time::sleep(Duration::from_millis(1)).await;
            seen = ids(session).await;
        }
    };
    soon("the queue's new state", look).await;
}

async fn order_of_calls(fixture: &dyn Fixture) {
    let (_backend, session) = session(fixture).await;
    let tickets = [ticket(), ticket(), ticket(), ticket()];
    let mut joining: Vec<_> = tickets.iter().map(|&ticket| session.enqueue_one(&door(), entry(ticket))).collect();
    // Polled backwards: the order of the polls does not matter.
    let mut joined = Vec::new();
    while let Some(last) = joining.pop() {
        joined.push(soon("the place", last).await.expect("the place is given"));
    }
    joined.reverse();
    let expected: Vec<_> = joined.iter().map(|place| place.id.clone()).collect();
    assert_eq!(ids(&session).await, expected);
    assert!(joined.is_sorted_by(|first, second| first.token < second.token), "tokens grow along the queue");
    for ticket in tickets {
        withdraw(&session, ticket).await;
    }
}

async fn takes_effect_when_made(fixture: &dyn Fixture) {
    let ((_one, session), (_other, onlooker)) = (session(fixture).await, session(fixture).await);
    let ticket = ticket();
    let unpolled = session.enqueue_one(&door(), entry(ticket));
    soon("the entry of an unpolled call", async {
        while ids(&onlooker).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    drop(unpolled);
    drop(session.withdraw(&door(), ticket));
    until_ids(&onlooker, &[]).await;
}

async fn shows_entries(fixture: &dyn Fixture) {
    let ((_one, first), (_other, second)) = (session(fixture).await, session(fixture).await);
    let (one, other) = (ticket(), ticket());
    let ahead = join(&first, one).await;
    let behind = join(&second, other).await;
    assert_eq!(ahead.view.contenders.len(), 1);
    assert_eq!(behind.view.contenders.len(), 2);
    let view = soon("the view", second.view(&door(), Freshness::Latest, Extent::Whole))
        .await
        .expect("the queue can be looked at");
    assert_eq!(view.connection, behind.view.connection, "it is the same connection");
    let shown: Vec<_> = view.contenders.iter().map(|contender| (&contender.id, contender.ticket)).collect();
    assert_eq!(shown, [(&ahead.id, Some(one)), (&behind.id, Some(other))]);
    assert!(behind.token > ahead.token);
    assert!(ahead.standing.liveness().is_held() && behind.standing.liveness().is_held());
    withdraw(&first, one).await;
    withdraw(&second, other).await;
}

async fn long_queue(fixture: &dyn Fixture) {
    let ((_one, ann), (_other, bob)) = (session(fixture).await, session(fixture).await);
    let entries = (0..LONG_QUEUE).map(|_| entry(ticket())).collect();
    let before = soon("the places", ann.enqueue(&door(), entries)).await.expect("the places are given");
    let (first, nearest) = (&before[0].id, &before[LONG_QUEUE - 1].id);
    let joined = join(&bob, ticket()).await;
    join(&ann, ticket()).await;
    let around = soon("the view", bob.view(&door(), Freshness::Latest, Extent::Around(Some(&joined.id)))).await;
    for view in [joined.view, around.expect("the queue can be looked at")] {
        assert_eq!(view.ahead_of(&joined.id), Some(LONG_QUEUE), "how many stand ahead of it");
        assert_eq!(view.contenders.first().map(|first| &first.id), Some(first));
        let at = view.position(&joined.id).expect("it is shown");
        assert_eq!(view.contenders[at - 1].id, *nearest, "the one ahead of it");
        let is_only_one = view.contenders[..at - 1].iter().all(|other| other.id == *nearest);
        assert!(!is_only_one, "that another one ahead keeps it waiting too");
    }
    let tail = soon("the view", bob.view(&door(), Freshness::Latest, Extent::Around(None))).await;
    assert_eq!(tail.expect("the queue can be looked at").contenders.first().map(|first| &first.id), Some(first));
    let whole = soon("the view", bob.view(&door(), Freshness::Latest, Extent::Whole)).await;
    assert_eq!(whole.expect("the queue can be looked at").contenders.len(), LONG_QUEUE + 2);
    soon("the end", ann.close()).await.expect("the session is closed");
    soon("the end", bob.close()).await.expect("the session is closed");
}

async fn withdrawn_by_ticket(fixture: &dyn Fixture) {
    let (_backend, session) = session(fixture).await;
    let (seen, unseen) = (ticket(), ticket());
    join(&session, seen).await;
    drop(session.enqueue_one(&door(), entry(unseen)));
    withdraw(&session, unseen).await;
    assert_eq!(ids(&session).await.len(), 1);
    withdraw(&session, seen).await;
    assert_eq!(ids(&session).await, []);
}

async fn lost_when_withdrawn(fixture: &dyn Fixture) {
    let (_backend, session) = session(fixture).await;
    let mine = ticket();
    let place = join(&session, mine).await;
    assert!(place.standing.liveness().is_held());
    let withdrawing = session.withdraw(&door(), mine);
    assert!(!place.standing.liveness().is_held(), "it is still believed");
    soon("the loss", place.standing.lost()).await;
    soon("the withdrawal", withdrawing).await.expect("the place is left");
    assert!(session.bond().liveness().is_held(), "the session stands");
}

async fn withdrawn_twice(fixture: &dyn Fixture) {
    let (_backend, session) = session(fixture).await;
    let (mine, never) = (ticket(), ticket());
    let place = join(&session, mine).await;
    withdraw(&session, never).await;
    assert_eq!(ids(&session).await, [place.id]);
    withdraw(&session, mine).await;
    withdraw(&session, mine).await;
    assert_eq!(ids(&session).await, []);
    // The second withdrawal must not withdraw the contender that comes next.
    let (next, next_ticket) = (join(&session, never).await, never);
    assert_eq!(ids(&session).await, [next.id]);
    withdraw(&session, next_ticket).await;
}

async fn gone_already(fixture: &dyn Fixture) {
    let (_backend, session) = session(fixture).await;
    let (first, second) = (ticket(), ticket());
    let ahead = join(&session, first).await;
    let mine = join(&session, second).await;
    withdraw(&session, first).await;
    let asking = session.departure(&door(), Some(&mine.id), &ahead.id, mine.view.connection);
    let answer = soon("the answer", asking).await.expect("it can be asked");
    assert_eq!(answer, Departure::Gone);
    withdraw(&session, second).await;
}

async fn told_to_all(fixture: &dyn Fixture) {
    let ((_one, session), (_other, onlooker)) = (session(fixture).await, session(fixture).await);
    let (first, second) = (ticket(), ticket());
    let ahead = join(&session, first).await;
    let behind = join(&onlooker, second).await;
    let seen = behind.view.connection;
    let waiting = tokio::spawn(onlooker.departure(&door(), Some(&behind.id), &ahead.id, seen));
    let looking = tokio::spawn(onlooker.departure(&door(), None, &ahead.id, seen));
    let other = tokio::spawn(onlooker.departure(&door(), None, &behind.id, seen));
    withdraw(&session, first).await;
    for told in [waiting, looking] {
        let answer = soon("the event", told).await.expect("the task does not panic");
        assert_eq!(answer.expect("it can be asked"), Departure::Gone);
    }
    assert!(!other.is_finished(), "the other contender is still there");
    withdraw(&onlooker, second).await;
    let answer = soon("the event", other).await.expect("the task does not panic");
    assert_eq!(answer.expect("it can be asked"), Departure::Gone);
}

async fn closed(fixture: &dyn Fixture) {
    let ((_one, session), (_other, onlooker)) = (session(fixture).await, session(fixture).await);
    let place = join(&session, ticket()).await;
    soon("the close", session.close()).await.expect("the service is told");
    assert_eq!(session.bond().liveness(), Liveness::Lost(LossReason::Closed));
    assert_eq!(soon("the loss", session.bond().lost()).await, LossReason::Closed);
    assert_eq!(place.standing.liveness(), Liveness::Lost(LossReason::Closed));
    assert_eq!(soon("the loss", place.standing.lost()).await, LossReason::Closed);
    assert!(soon("the refusal", session.enqueue_one(&door(), entry(ticket()))).await.is_err());
    until_ids(&onlooker, &[]).await;
}

/// As by a guard that is the last user of its session: the close is called while the removal is under way.
async fn left_before_closing(fixture: &dyn Fixture) {
    for _ in 0..CLOSED_SESSIONS {
        let (_backend, session) = session(fixture).await;
        let ticket = ticket();
        join(&session, ticket).await;
        let (leaving, closing) = (session.withdraw(&door(), ticket), session.close());
        soon("the withdrawal", leaving).await.expect("the place stood until it was left");
        soon("the close", closing).await.expect("the service is told");
    }
}

async fn untaken(fixture: &dyn Fixture) {
    let client = fixture.client().await.expect("a client is opened");
    drop(client.backend().session());
    let (backend, opened) = session(fixture).await;
    join(&opened, ticket()).await;
    drop(opened);
    let onlooker = soon("the session", backend.session()).await.expect("a session is opened");
    until_ids(&onlooker, &[]).await;
}
