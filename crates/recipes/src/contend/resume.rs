//! Two attempts instead of one: at a place in line, and later at its grant.

use tokio::sync::Mutex as AsyncMutex;

use super::line::{Joined, OnePlace};
use super::persist::{Attempt, Progress};
use super::place::Granted;
use crate::shared::Shared;
use lockkeeper_core::{Advice, QueueName, Result};

/// Asks for a place in line, without the wait for its turn.
#[derive(Debug)]
pub(crate) struct InLine<'a>(pub(crate) OnePlace<'a>);

impl Attempt for InLine<'_> {
    type Granted = Joined;

    fn queue(&self) -> &QueueName {
        self.0.queue
    }

    async fn wait(&self, shared: &Shared, _progress: &mut Progress) -> Result<Joined> {
        let session = self.0.session(shared).await?;
        self.0.join(shared, session).await
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<Joined>> {
        self.wait(shared, &mut Progress::NoPlace(None)).await.map(Some)
    }
}

/// Asks for the grant of a place that may exist already; if that place is lost, of another one at the tail.
#[derive(Debug)]
pub(crate) struct Resumed<'a> {
    wanted: OnePlace<'a>,
    /// Locked by the only wait; the place is still there when that is dropped.
    place: AsyncMutex<&'a mut Option<Joined>>,
}

impl<'a> Resumed<'a> {
    pub(crate) fn new(wanted: OnePlace<'a>, place: &'a mut Option<Joined>) -> Self {
        Self { wanted, place: AsyncMutex::new(place) }
    }
}

impl Attempt for Resumed<'_> {
    type Granted = Granted;

    fn queue(&self) -> &QueueName {
        self.wanted.queue
    }

    async fn wait(&self, shared: &Shared, progress: &mut Progress) -> Result<Granted> {
        let mut place = self.place.lock().await;
        let joined = match place.as_mut() {
            Some(joined) => joined,
            None => {
                let session = self.wanted.session(shared).await?;
                place.insert(self.wanted.join(shared, session).await?)
            }
        };
        *progress = Progress::Placed;
        let outcome = joined.until_granted(shared).await;
        // Granted or lost, the place cannot be waited in any more.
        let joined = place.take().expect("it was there a moment ago");
        outcome?;
        joined.grant()
    }

    async fn try_once(&self, shared: &Shared) -> Result<Option<Granted>> {
        let mut place = self.place.lock().await;
        let Some(joined) = place.as_mut() else {
            return self.wanted.try_once(shared).await;
        };
        match joined.is_granted_now().await {
            Ok(false) => return Ok(None),
            // A failure that may pass does not cost a place that stands.
            Err(error) if error.advice() != Advice::Permanent && joined.stands() => return Err(error),
            Err(error) => {
                drop(place.take());
                return Err(error);
            }
            Ok(true) => {}
        }
        place.take().expect("it was there a moment ago").grant().map(Some)
    }
}
