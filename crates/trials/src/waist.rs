//! Calls of the waist, without recipes: a session, and the queue `door` in which entries stand.
//!
//! # Panics
//!
//! All of these do if the service fails, or takes too long.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Entry, Extent, Freshness, Mode, Owner, QueueName, Session, Ticket};

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

/// The tickets in the queue, in their order.
pub async fn tickets(session: &dyn Session) -> Vec<Option<Ticket>> {
    let viewing = session.view(&door(), Freshness::Latest, Extent::Whole);
    let view = soon("a view", viewing).await.expect("a view");
    view.contenders.iter().map(|contender| contender.ticket).collect()
}
