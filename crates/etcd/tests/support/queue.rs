//! Sessions on the waist, and the queue `door` in which their entries stand.

use std::sync::Arc;

use lockkeeper_core::{Backend, Entry, Extent, Freshness, Mode, Owner, QueueName, Session, Ticket};

use crate::client::soon;

pub(crate) async fn session(backend: &dyn Backend) -> Arc<dyn Session> {
    soon("a session", backend.session()).await.expect("a session")
}

pub(crate) fn door() -> QueueName {
    QueueName::new("door").expect("a name")
}

pub(crate) fn entry(ticket: Ticket) -> Entry {
    Entry::new(ticket, Mode::Mutex, Arc::new(Owner::new("somewhere", 1, "something")))
}

pub(crate) fn ticket() -> Ticket {
    Ticket::mint().expect("randomness")
}

/// The tickets in the queue `door`, in their order.
pub(crate) async fn tickets(session: &dyn Session) -> Vec<Option<Ticket>> {
    let viewing = session.view(&door(), Freshness::Latest, Extent::Whole);
    let view = soon("a view", viewing).await.expect("a view");
    view.contenders.iter().map(|contender| contender.ticket).collect()
}
