//! A call that asks for a lock: on the list of the keeper's contenders, measured and traced, from its beginning until
//! it has a guard or ends without one.

pub(crate) mod calling;
pub(crate) mod spans;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Error, Mode, Operation, QueueName, Result, Wait};
use tracing::Instrument;

use self::spans::Collected;
use crate::event::Event;
use crate::event::meter::{Asked, Holding, Meter};
use crate::hold::list::{OnList, Presence};
use crate::shared::Shared;

/// A call that asks for a lock; dropping it says that it was cancelled.
pub(crate) struct Call {
    pub(crate) begun_at: BootInstant,
    listed: OnList,
    asked: Asked,
    span: Collected,
}

/// What is left of a call when it was granted the lock.
pub(crate) struct Answered {
    pub(crate) listed: OnList,
    pub(crate) holding: Holding,
    /// The span of the wait, which the one of the hold follows from.
    pub(crate) span: Collected,
}

impl Call {
    /// Begins a call; a caller that has waited before says since when, so that it is measured whole.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed), permanent, in a fork of the keeper's process.
    pub(crate) fn begin(
        shared: &Shared,
        queue: &QueueName,
        meter: &Meter,
        mode: Mode,
        since: Option<BootInstant>,
    ) -> Result<Self> {
        let begun_at = shared.clock.now();
        // Before anything is locked, which may be for ever in a fork.
        shared.home.check_at(begun_at, Operation::Join).map_err(|error| error.at(queue))?;
        let listed = shared.holds.list(queue, mode, Presence::Active);
        let (asked, span) = (meter.ask(mode, since.unwrap_or(begun_at)), spans::wait(queue, mode));
        Ok(Self { begun_at, listed, asked, span })
    }

    /// Returns what becomes the hold of one more place that was granted to this call.
    pub(crate) fn another(&self, shared: &Shared, queue: &QueueName, mode: Mode) -> Self {
        let listed = shared.holds.list(queue, mode, Presence::Active);
        Self { begun_at: self.begun_at, listed, asked: self.asked.another(), span: self.span.clone() }
    }

    /// Does its work within its span. The work is made here, so that its future is moved no more.
    pub(crate) async fn traced<Work: Future>(&self, begin: impl FnOnce() -> Work) -> Work::Output {
        match &self.span {
            None => begin().await,
            Some(span) => Box::pin(begin()).instrument((**span).clone()).await,
        }
    }

    /// Notes whether it may still come to hold something without another call.
    pub(crate) fn note(&self, presence: Presence) {
        self.listed.note(presence);
    }

    /// Notes the grant.
    pub(crate) fn granted(self, at: BootInstant) -> Answered {
        let Self { listed, asked, span, .. } = self;
        Answered { listed, holding: asked.granted(at), span }
    }

    /// Notes that it was granted nothing in the time that it had, and tells observers.
    pub(crate) fn none(self, shared: &Shared, queue: &QueueName, wait: Wait) {
        self.asked.none(wait);
        let waited = shared.clock.now().saturating_duration_since(self.begun_at);
        shared.observers.emit(&Event::NotAcquired { lock: queue.clone(), waited });
    }

    /// Notes that it has failed.
    pub(crate) fn failed(self, error: &Error) {
        self.asked.failed(error);
    }
}
