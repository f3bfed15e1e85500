//! Waiting without a place: until a value says something, until contenders are gone, or until a lock is free of all.
//!
//! An onlooker has nothing to lose with its session, so the end of one is a failure that may pass.

use std::sync::Arc;

use super::persist::{Attempt, Progress};
use crate::shared::Shared;
use lockkeeper_core::Part;
use lockkeeper_core::{ContenderId, QueueView, Value};
use lockkeeper_core::{Error, ErrorKind, QueueName, Result, Session};

/// Waits until the value of a queue meets a condition.
#[derive(Debug)]
pub(crate) struct ValueSays<'a, Read> {
    pub(crate) queue: &'a QueueName,
    /// Reads the result from a value; `None` to wait for the next one.
    pub(crate) read: Read,
}

impl<Read, Said> Attempt for ValueSays<'_, Read>
where
    Read: Fn(Option<Value>) -> Option<Said> + Sync,
    Said: Send,
{
    type Granted = Said;

    fn queue(&self) -> &QueueName {
        self.queue
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<Said> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        let mut value = session.value(self.queue).await.map_err(|error| onlooker_error(self.queue, error))?;
        *progress = Progress::Placed;
        loop {
            let version = value.as_ref().map(|value| value.version);
            if let Some(said) = (self.read)(value) {
                return Ok(said);
            }
            let change = session.value_changed(self.queue, version).await;
            value = change.map_err(|error| onlooker_error(self.queue, error))?;
        }
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<Said>> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        let value = session.value(self.queue).await.map_err(|error| onlooker_error(self.queue, error))?;
        Ok((self.read)(value))
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

impl Attempt for AllGone {
    type Granted = ();

    fn queue(&self) -> &QueueName {
        &self.queue
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<()> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        loop {
            let view = session.view(&self.queue).await.map_err(|error| onlooker_error(&self.queue, error))?;
            *progress = Progress::Placed;
            let Some(last) = self.last_in(&view) else {
                return Ok(());
            };
            let departure = session.departure(&self.queue, None, last, view.version).await;
            departure.map_err(|error| onlooker_error(&self.queue, error))?;
        }
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<()>> {
        let session = shared.session().await.map_err(|error| onlooker_error(&self.queue, error))?;
        let view = session.view(&self.queue).await.map_err(|error| onlooker_error(&self.queue, error))?;
        Ok(self.last_in(&view).is_none().then_some(()))
    }
}

/// Waits until no contender stands in any queue of a lock.
#[derive(Debug)]
pub(crate) struct Vacant<'a> {
    pub(crate) lock: &'a QueueName,
}

impl Vacant<'_> {
    async fn view(&self, session: &Arc<dyn Session>, queue: &QueueName) -> Result<QueueView> {
        session.view(queue).await.map_err(|error| onlooker_error(self.lock, error))
    }

    /// Waits until a queue is empty: one departure after the other, the last contender's first.
    async fn until_empty(
        &self,
        session: &Arc<dyn Session>,
        queue: &QueueName,
        progress: &mut Progress,
    ) -> Result<QueueView> {
        loop {
            let view = self.view(session, queue).await?;
            *progress = Progress::Placed;
            let Some(last) = view.contenders.last() else {
                return Ok(view);
            };
            let departure = session.departure(queue, None, &last.id, view.version).await;
            departure.map_err(|error| onlooker_error(self.lock, error))?;
        }
    }
}

impl Attempt for Vacant<'_> {
    type Granted = ();

    fn queue(&self) -> &QueueName {
        self.lock
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<()> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.lock, error))?;
        loop {
            let view = self.until_empty(&session, self.lock, progress).await?;
            if view.elsewhere.is_none() {
                return Ok(());
            }
            for part in [Part::Gate, Part::Permits] {
                self.until_empty(&session, &self.lock.with_part(part), progress).await?;
            }
        }
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<()>> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.lock, error))?;
        let view = self.view(&session, self.lock).await?;
        Ok((view.contenders.is_empty() && view.elsewhere.is_none()).then_some(()))
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
