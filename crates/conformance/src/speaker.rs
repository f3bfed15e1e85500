//! A session used without a recipe, for cases about the waist itself.

use std::sync::Arc;

use lockkeeper_core::{
    Backend, ContenderId, ContenderInfo, Enqueued, Entry, Extent, Freshness, Mode, Owner, Part, QueueName, QueueView,
    Session, Ticket,
};

use crate::fixture::{Client, Fault, Fixture};
use crate::waiting::{soon, until};

/// One client, its side of the waist, and a session of it.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub(crate) client: Arc<dyn Client>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) session: Arc<dyn Session>,
}

/// A place that was taken, and the ticket that withdraws it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    pub(crate) joined: Enqueued,
}

impl Speaker {
    pub(crate) async fn enter(fixture: &dyn Fixture) -> Self {
        let client = fixture.client().await.expect("the fixture opens a client");
        let backend = client.backend();
        let session = soon("the session", backend.session()).await.expect("a session is opened");
        Self { client, backend, session }
    }

    /// Returns where a contender may stand, and in which mode: the modes that the service carries.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Part, Mode)> {
        let carried = self.backend.capabilities().modes;
        PLACES.into_iter().filter(move |&(_, mode)| carried.has(mode))
    }

    /// Takes a place at the tail.
    pub(crate) async fn take(&self, queue: &QueueName, mode: Mode) -> Taken {
        self.take_entry(queue, entry(mode)).await
    }

    pub(crate) async fn take_entry(&self, queue: &QueueName, entry: Entry) -> Taken {
        let ticket = entry.ticket;
        let joined = soon("the place", self.session.enqueue_one(queue, entry)).await.expect("the place is given");
        Taken { ticket, joined }
    }

    pub(crate) async fn view(&self, queue: &QueueName) -> QueueView {
        soon("the view", self.session.view(queue, Freshness::Latest, Extent::Whole))
            .await
            .expect("the queue can be looked at")
    }

    pub(crate) async fn ids(&self, queue: &QueueName) -> Vec<ContenderId> {
        ids_of(&self.view(queue).await)
    }

    /// Waits until the queue holds these contenders and no others.
    pub(crate) async fn until_ids(&self, queue: &QueueName, expected: &[ContenderId]) {
        until("the queue's new state", async || self.ids(queue).await == expected).await;
    }

    pub(crate) async fn inspect(&self, queue: &QueueName) -> Vec<ContenderInfo> {
        soon("the look", self.backend.admin().inspect(queue)).await.expect("the queue can be looked at")
    }

    pub(crate) async fn withdraw(&self, queue: &QueueName, ticket: Ticket) {
        soon("the withdrawal", self.session.withdraw(queue, ticket)).await.expect("the place is left");
    }

    pub(crate) async fn close(&self) {
        soon("the end", self.session.close()).await.expect("the session is closed");
    }

    pub(crate) async fn inflict(&self, fault: Fault) {
        self.client.inflict(fault).await.expect("the harm is done");
    }
}

/// Opens a session of each of as many clients as are named.
pub(crate) async fn speakers<const N: usize>(fixture: &dyn Fixture) -> [Speaker; N] {
    let mut speakers = Vec::with_capacity(N);
    for _ in 0..N {
        speakers.push(Speaker::enter(fixture).await);
    }
    speakers.try_into().expect("so many were opened")
}

/// Where contenders of each mode stand; of a lock that has several parts, all before the line.
pub(crate) const PLACES: [(Part, Mode); 7] = [
    (Part::Permits, Mode::Permit),
    (Part::Waiters, Mode::Acquire),
    (Part::Line, Mode::Mutex),
    (Part::Line, Mode::Write),
    (Part::Line, Mode::Read),
    (Part::Line, Mode::Candidate),
    (Part::Line, Mode::Member),
];

/// A new entry for the tail of a queue.
pub(crate) fn entry(mode: Mode) -> Entry {
    let ticket = Ticket::mint().expect("the system gives randomness");
    Entry::new(ticket, mode, Arc::new(Owner::new("somewhere", 1, "something")))
}

/// Names a queue whose lock has only one.
pub(crate) fn line(name: &str) -> QueueName {
    QueueName::new(name).expect("the name is valid")
}

pub(crate) fn part_of(name: &str, part: Part) -> QueueName {
    line(name).with_part(part)
}

pub(crate) fn ids_of(view: &QueueView) -> Vec<ContenderId> {
    view.contenders.iter().map(|contender| contender.id.clone()).collect()
}
