//! Calls of the waist, without recipes: a session, and the queue `door` in which entries stand.
//!
//! # Panics
//!
//! All of these do if the service fails, or takes too long.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Enqueued, Entry, Extent, Freshness, Mode, Owner, QueueName, Session, Ticket};

/// How many places are taken in one call.
const AT_ONCE: usize = 500;

/// Opens a session.
pub async fn session(backend: &dyn Backend) -> Arc<dyn Session> {
    soon("a session", backend.session()).await.expect("a session")
}

/// The name of the queue.
pub fn door() -> QueueName {
    QueueName::new("door").expect("a name")
}

/// An entry for a mutex.
pub fn entry(ticket: Ticket) -> Entry {
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

/// A ticket.
pub fn ticket() -> Ticket {
    Ticket::mint().expect("randomness")
}

/// Takes places with these tickets, in their order.
pub async fn join_all(session: &dyn Session, queue: &QueueName, tickets: &[Ticket]) -> Vec<Enqueued> {
    let mut places = Vec::new();
    for tickets in tickets.chunks(AT_ONCE) {
        let entries = tickets.iter().map(|&ticket| entry(ticket)).collect();
        places.extend(soon("the places", session.enqueue(queue, entries)).await.expect("places"));
    }
    places
}

/// The tickets in the queue, in their order.
pub async fn tickets(session: &dyn Session) -> Vec<Option<Ticket>> {
    let viewing = session.view(&door(), Freshness::Latest, Extent::Whole);
    let view = soon("a view", viewing).await.expect("a view");
    view.contenders.iter().map(|contender| contender.ticket).collect()
}
