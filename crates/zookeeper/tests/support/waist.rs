//! The waist's methods on a bench: one session, and calls on it.

use std::fmt::Display;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{
    Backend, Enqueued, Entry, Extent, Freshness, Mode, Owner, Part, QueueName, QueueView, Session, Ticket,
};
use lockkeeper_zookeeper::ZooKeeperBackend;

use super::way::url;

/// A backend and a session of it.
#[derive(Debug)]
pub(crate) struct Waist {
    pub(crate) backend: Arc<ZooKeeperBackend>,
    pub(crate) session: Arc<dyn Session>,
}

impl Waist {
    pub(crate) async fn open(servers: impl Display, settings: &str) -> Self {
        let backend = Arc::new(ZooKeeperBackend::open(&url(servers, settings)).expect("a good URL"));
        let session = soon("a session", backend.session()).await.expect("a session");
        Self { backend, session }
    }

    pub(crate) async fn take(&self, queue: &QueueName, mode: Mode) -> (Ticket, Enqueued) {
        self.take_entry(queue, entry(mode)).await
    }

    pub(crate) async fn take_entry(&self, queue: &QueueName, entry: Entry) -> (Ticket, Enqueued) {
        let ticket = entry.ticket;
        (ticket, soon("the place", self.session.enqueue_one(queue, entry)).await.expect("a place"))
    }

    pub(crate) async fn leave(&self, queue: &QueueName, ticket: Ticket) {
        soon("the leave", self.session.withdraw(queue, ticket)).await.expect("it is left");
    }

    pub(crate) async fn view(&self, queue: &QueueName) -> QueueView {
        soon("the look", self.session.view(queue, Freshness::Latest, Extent::Whole)).await.expect("a look")
    }

    /// What the contenders of a queue are shown to ask for.
    pub(crate) async fn modes(&self, queue: &QueueName) -> Vec<Mode> {
        self.view(queue).await.contenders.iter().map(|contender| contender.mode).collect()
    }
}

pub(crate) fn entry(mode: Mode) -> Entry {
    Entry::new(Ticket::mint().expect("randomness"), mode, Arc::new(Owner::this_process()))
}

pub(crate) fn queue(name: &str, part: Part) -> QueueName {
    QueueName::new(name).expect("a good name").with_part(part)
}

pub(crate) fn line(name: &str) -> QueueName {
    queue(name, Part::Line)
}
