//! Waiting without a place: until a value says something, until contenders are gone, or until a lock is free of all.
//!
//! An onlooker has nothing to lose with its session, so the end of one is a failure that may pass.

use std::sync::Arc;

use lockkeeper_core::{
    ContenderId, Error, ErrorKind, Extent, Freshness, Part, QueueName, QueueView, Result, Session, Value,
};

use crate::contend::{GrantAttempt, WaitProgress};
use crate::shared::{KeeperStage, Shared};

/// Waits until the value of a queue meets a condition.
#[derive(Debug)]
pub(crate) struct ValueSays<'a, Read> {
    pub(crate) queue: &'a QueueName,
    /// Reads the result from a value; `None` to wait for the next one.
    pub(crate) read: Read,
}

impl<Read, Said> GrantAttempt for ValueSays<'_, Read>
where
    Read: Fn(Option<Value>) -> Option<Said> + Send + Sync,
    Said: Send,
{
    type Granted = Said;

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Said> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        let mut value = session.values().get(self.queue).await.map_err(|error| onlooker_error(self.queue, error))?;
        *progress = WaitProgress::Placed;
        loop {
            let version = value.as_ref().map(|value| value.version);
            if let Some(said) = (self.read)(value) {
                return Ok(said);
            }
            let change = session.values().until_changed(self.queue, version).await;
            value = change.map_err(|error| onlooker_error(self.queue, error))?;
        }
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Said>> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        let value = session.values().get(self.queue).await.map_err(|error| onlooker_error(self.queue, error))?;
        Ok((self.read)(value))
    }
}

/// Waits until the contenders of which `last_in` names the last have left, one departure after the other, and returns
/// the queue without them.
async fn until_gone(
    session: &Arc<dyn Session>,
    queue: &QueueName,
    progress: &mut WaitProgress,
    last_in: impl for<'v> Fn(&'v QueueView) -> Option<&'v ContenderId>,
) -> Result<QueueView> {
    loop {
        let view = session.view(queue, Freshness::Latest, Extent::Whole).await?;
        *progress = WaitProgress::Placed;
        let Some(last) = last_in(&view) else {
            return Ok(view);
        };
        session.departure(queue, None, last, view.connection).await?;
    }
}

/// Waits until none of these contenders stands in the queue.
#[derive(Debug)]
pub(crate) struct AllGone {
    pub(crate) queue: QueueName,
    pub(crate) contenders: Vec<ContenderId>,
}

impl AllGone {
    /// Returns the last one that is still there: none of the others can stand behind it later.
    fn last_in<'v>(&self, view: &'v QueueView) -> Option<&'v ContenderId> {
        view.contenders.iter().rev().map(|contender| &contender.id).find(|id| self.contenders.contains(id))
    }
}

impl GrantAttempt for AllGone {
    type Granted = ();

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<()> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        let gone = until_gone(&session, &self.queue, progress, |view| self.last_in(view)).await;
        gone.map(drop).map_err(|error| onlooker_error(&self.queue, error))
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<()>> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        let view = session
            .view(&self.queue, Freshness::Latest, Extent::Whole)
            .await
            .map_err(|error| onlooker_error(&self.queue, error))?;
        Ok(self.last_in(&view).is_none().then_some(()))
    }
}

fn last_of_all(view: &QueueView) -> Option<&ContenderId> {
    view.contenders.last().map(|last| &last.id)
}

/// Waits until no contender stands in any queue of a lock.
#[derive(Debug)]
pub(crate) struct Vacant<'a> {
    pub(crate) lock: &'a QueueName,
}

impl Vacant<'_> {
    /// Looks without a session: what is vacant needs none, and a look leaves nothing on the service.
    async fn is_vacant(&self, shared: &Shared) -> Result<bool> {
        shared.refuse_from(KeeperStage::Closed)?;
        let shown = shared.backend.admin().inspect(self.lock).await;
        shown.map(|shown| shown.is_empty()).map_err(|error| onlooker_error(self.lock, error))
    }

    /// Waits until no part of the lock has a contender.
    async fn until_vacant(&self, session: &Arc<dyn Session>, progress: &mut WaitProgress) -> Result<()> {
        loop {
            let view = until_gone(session, self.lock, progress, last_of_all).await?;
            if view.elsewhere.is_none() {
                return Ok(());
            }
            for part in [Part::Waiters, Part::Permits] {
                until_gone(session, &self.lock.with_part(part), progress, last_of_all).await?;
            }
        }
    }
}

impl GrantAttempt for Vacant<'_> {
    type Granted = ();

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<()> {
        if self.is_vacant(shared).await? {
            return Ok(());
        }
        let session = shared.session().await.map_err(|error| onlooker_error(self.lock, error))?;
        self.until_vacant(&session, progress).await.map_err(|error| onlooker_error(self.lock, error))
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<()>> {
        Ok(self.is_vacant(shared).await?.then_some(()))
    }
}

/// Adds the queue, and turns the end of a session into the transient failure that it is for an onlooker.
pub(crate) fn onlooker_error(queue: &QueueName, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Lost(reason) => {
            Error::transient(ErrorKind::ConnectionLost, error.operation(), reason.to_string()).at(queue)
        }
        _ => error.at(queue),
    }
}
