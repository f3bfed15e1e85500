//! A lock made of the backend traits alone.

use std::sync::Arc;

use lockkeeper_core::{Departure, Enqueued, Extent, Freshness, QueueName, Result, Session, Ticket};

use super::entry;

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) queue: QueueName,
    pub(crate) ticket: Ticket,
    pub(crate) joined: Enqueued,
}

impl Place {
    pub(crate) async fn join(session: &Arc<dyn Session>, queue: &QueueName) -> Result<Self> {
        let entry = entry();
        let ticket = entry.ticket;
        let joined = session.enqueue_one(queue, entry).await?;
        Ok(Self { session: session.clone(), queue: queue.clone(), ticket, joined })
    }

    /// Waits until this place is the first.
    pub(crate) async fn granted(&mut self) -> Result<()> {
        loop {
            let contenders = &self.joined.view.contenders;
            let position =
                contenders.iter().position(|other| other.id == self.joined.id).expect("we stand in the queue");
            let Some(ahead) = position.checked_sub(1) else {
                return Ok(());
            };
            let (seen, ahead) = (self.joined.view.connection, contenders[ahead].id.clone());
            let departure = self.session.departure(&self.queue, Some(&self.joined.id), &ahead, seen).await?;
            if departure == Departure::Gone && position == 1 {
                return Ok(());
            }
            self.joined.view = self.session.view(&self.queue, Freshness::Latest, Extent::Whole).await?;
        }
    }

    /// Leaves the queue.
    pub(crate) async fn leave(self) -> Result<()> {
        self.session.withdraw(&self.queue, self.ticket).await
    }

    /// Returns the number that the place was given.
    pub(crate) fn number(&self) -> u64 {
        self.joined.token.as_u64()
    }
}

/// Joins a queue and waits for the first place.
pub(crate) async fn lock(session: &Arc<dyn Session>, queue: &QueueName) -> Result<Place> {
    let mut place = Place::join(session, queue).await?;
    place.granted().await?;
    Ok(place)
}
