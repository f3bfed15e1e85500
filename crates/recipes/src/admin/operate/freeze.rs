//! One attempt at a place that outlives our session, and at its turn: a lock that is to be frozen.
//!
//! The place does not end with the session, so neither does its turn: under the next session it is found again where it
//! stands. Until it is kept on purpose it is withdrawn like any other place.

use std::sync::Arc;

use lockkeeper_core::{
    ContenderId, Entry, Extent, Freshness, Lifetime, Mode, Part, QueueName, QueueView, Request, Result, Session, Ticket,
};

use crate::contend::{AllGone, ArmedPlace, GrantAttempt, WaitProgress, kind_mismatch, onlooker_error, removed};
use crate::decide::{self, Decision};
use crate::shared::Shared;

/// Asks to hold a lock beyond the life of our session.
#[derive(Debug)]
pub(crate) struct Freeze {
    queue: QueueName,
    mode: Mode,
    reason: Arc<str>,
    /// The place, until it is kept or withdrawn.
    place: Option<ArmedPlace>,
}

impl GrantAttempt for Freeze {
    type Granted = ContenderId;

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<ContenderId> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        let (id, mut view) = self.stand(shared, &session).await?;
        *progress = WaitProgress::Placed;
        while let Some(ahead) = self.ahead(&id, &view)? {
            let departure = session.departure(&self.queue, None, &ahead, view.connection).await;
            departure.map_err(|error| onlooker_error(&self.queue, error))?;
            view = session
                .view(&self.queue, Freshness::Latest, Extent::Around(Some(&id)))
                .await
                .map_err(|error| onlooker_error(&self.queue, error))?;
        }
        if self.queue.part() == Part::Waiters {
            // No waiter passes now; it waits for those that did before.
            let mut held = self.permits(&session).await?;
            held.wait(shared, progress).await?;
        }
        Ok(id)
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<ContenderId>> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        let (id, view) = self.stand(shared, &session).await?;
        if self.ahead(&id, &view)?.is_some() {
            return Ok(None);
        }
        if self.queue.part() == Part::Waiters && !self.permits(&session).await?.contenders.is_empty() {
            return Ok(None);
        }
        Ok(Some(id))
    }
}

impl Freeze {
    pub(crate) fn new(queue: QueueName, mode: Mode, reason: &str) -> Self {
        Self { queue, mode, reason: reason.into(), place: None }
    }

    /// Finds our place in the queue, or takes one.
    async fn stand(&mut self, shared: &Shared, session: &Arc<dyn Session>) -> Result<(ContenderId, QueueView)> {
        if let Some(ticket) = self.place.as_ref().map(ArmedPlace::ticket)
            && let Some(found) = find(session, &self.queue, ticket).await?
        {
            return Ok(found);
        }
        let ticket = Ticket::mint()?;
        let place = ArmedPlace::arm(shared, session.clone(), self.queue.clone(), ticket);
        self.place = Some(place);
        let mut entry = Entry::new(ticket, self.mode, shared.owner.clone());
        entry.lifetime = Lifetime::Persistent { reason: self.reason.clone() };
        let joined = session.enqueue_one(&self.queue, entry).await;
        let joined = joined.map_err(|error| onlooker_error(&self.queue, error))?;
        Ok((joined.id, joined.view))
    }

    /// Returns the contender that we wait for.
    fn ahead(&self, id: &ContenderId, view: &QueueView) -> Result<Option<ContenderId>> {
        match decide::decide(self.mode, id, view) {
            Decision::Granted => Ok(None),
            Decision::WaitFor { ahead, .. } => Ok(Some(ahead)),
            Decision::NotInQueue => Err(removed(&self.queue)),
            Decision::KindMismatch { found } => Err(kind_mismatch(&self.queue, self.mode, found)),
        }
    }

    async fn permits(&self, session: &Arc<dyn Session>) -> Result<AllGone> {
        let queue = self.queue.with_part(Part::Permits);
        let view = session
            .view(&queue, Freshness::Latest, Extent::Whole)
            .await
            .map_err(|error| onlooker_error(&queue, error))?;
        let contenders = view.contenders.iter().map(|contender| contender.id.clone()).collect();
        Ok(AllGone { queue, contenders })
    }

    /// Leaves the place where it is and stops tracking it.
    pub(crate) fn keep(self) {
        if let Some(place) = self.place {
            place.keep();
        }
    }

    /// Gives the place up. It outlives the session under which it was taken; so if that is lost, it is broken under the
    /// next one.
    pub(crate) async fn give_up(self, shared: &Shared) -> Result<()> {
        let Some(place) = self.place else {
            return Ok(());
        };
        let ticket = place.ticket();
        let stands = place.session().bond().liveness().is_held();
        // It goes on in the background, while its session stands.
        drop(place.leave());
        if stands {
            return Ok(());
        }
        let session = shared.session().await?;
        let Some((id, _)) = find(&session, &self.queue, ticket).await? else {
            return Ok(());
        };
        let shown = shared.backend.admin().inspect(&self.queue).await?;
        if let Some(token) = shown.into_iter().find(|info| info.id == id).and_then(|info| info.token) {
            session.request(&self.queue, &id, Request::Break { token }).await?;
        }
        Ok(())
    }
}

async fn find(
    session: &Arc<dyn Session>,
    queue: &QueueName,
    ticket: Ticket,
) -> Result<Option<(ContenderId, QueueView)>> {
    let view =
        session.view(queue, Freshness::Latest, Extent::Whole).await.map_err(|error| onlooker_error(queue, error))?;
    let id = view.contenders.iter().find(|contender| contender.ticket == Some(ticket)).map(|ours| ours.id.clone());
    Ok(id.map(|id| (id, view)))
}
