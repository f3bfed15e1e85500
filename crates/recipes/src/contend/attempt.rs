//! One attempt at a place in one queue: its join is sent, then it stands in the queue, then it is granted.
//!
//! A service in this process grants it by one poll, in the caller's own future. The join that is under way lies with
//! the caller, so that a wait which is dropped may go on later.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::{Advice, Opener, QueueView, Result, Session};

use crate::contend::line::{JoinedPlace, OnePlace, SentEntry};
use crate::contend::place::Granted;
use crate::contend::{GrantAttempt, WaitProgress};
use crate::shared::Shared;

/// A join that is under way.
pub(crate) enum PendingPlace {
    /// It was sent, and is not answered yet.
    Sent(SentEntry),
    /// It has a place in the queue.
    Joined(JoinedPlace),
}

impl PendingPlace {
    /// Takes in the answer to the join, if it has come.
    fn advance(self, wanted: &OnePlace<'_>, shared: &Shared, context: &mut Context<'_>) -> Result<Self> {
        let Self::Sent((place, mut answer)) = self else { return Ok(self) };
        match answer.as_mut().poll(context) {
            Poll::Pending => Ok(Self::Sent((place, answer))),
            Poll::Ready(answer) => wanted.answered(shared, place, answer).map(Self::Joined),
        }
    }

    /// Returns the place, if it is certain to be in the queue.
    pub(crate) fn into_joined(self) -> Option<JoinedPlace> {
        match self {
            Self::Sent(_) => None,
            Self::Joined(joined) => Some(joined),
        }
    }

    const fn is_joined(&self) -> bool {
        matches!(self, Self::Joined(_))
    }
}

impl fmt::Debug for PendingPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_joined() { "Joined" } else { "Sent" })
    }
}

/// An attempt at one place. What is under way stays pending when a wait is dropped.
pub(crate) struct PlaceAttempt<'a> {
    wanted: OnePlace<'a>,
    pending: &'a mut Option<Box<PendingPlace>>,
}

impl<'a> PlaceAttempt<'a> {
    pub(crate) const fn new(wanted: OnePlace<'a>, pending: &'a mut Option<Box<PendingPlace>>) -> Self {
        Self { wanted, pending }
    }
}

impl PlaceAttempt<'_> {
    /// Joins the queue, if the service answers at once, and takes what is granted by that, with the queue as it stood
    /// then.
    pub(crate) fn poll_at_once(
        &mut self,
        shared: &Shared,
        progress: &mut WaitProgress,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Granted, QueueView)>> {
        // An owner key notes its wait between the join and the grant.
        let is_plain = self.wanted.asking.is_none() && self.pending.is_none();
        let session = if is_plain { self.wanted.session_at_once(shared) } else { None };
        let Some(session) = session else { return Poll::Pending };
        let sent = PendingPlace::Sent(self.wanted.send(shared, session)?);
        let pending = match sent.advance(&self.wanted, shared, context)? {
            PendingPlace::Joined(joined) => {
                *progress = WaitProgress::Placed;
                if joined.is_granted_by_join()? {
                    return Poll::Ready(joined.grant());
                }
                PendingPlace::Joined(joined)
            }
            sent => sent,
        };
        *self.pending = Some(Box::new(pending));
        Poll::Pending
    }

    /// Waits until it has a place in the queue.
    pub(crate) async fn join(&mut self, shared: &Shared) -> Result<&mut JoinedPlace> {
        if self.pending.is_none() {
            let session = self.wanted.session(shared).await?;
            *self.pending = Some(Box::new(PendingPlace::Sent(self.wanted.send(shared, session)?)));
        }
        poll_fn(|context| self.poll_join(shared, context)).await?;
        Ok(self.joined().expect("it was answered"))
    }

    fn poll_join(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<()>> {
        let pending = self.pending.take().expect("it was sent");
        let pending = pending.advance(&self.wanted, shared, context)?;
        let is_joined = pending.is_joined();
        *self.pending = Some(Box::new(pending));
        if is_joined { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn joined(&mut self) -> Option<&mut JoinedPlace> {
        match self.pending.as_deref_mut() {
            Some(PendingPlace::Joined(joined)) => Some(joined),
            Some(PendingPlace::Sent(_)) | None => None,
        }
    }

    /// Waits until the place that it has is granted or lost. The queue at the join comes with a grant by that.
    pub(crate) async fn granted(&mut self, shared: &Shared) -> Result<(Granted, QueueView)> {
        let joined = self.joined().expect("it has a place");
        let outcome = joined.until_granted(shared).await;
        // Granted or lost, the place cannot be waited in any more.
        let joined = self.take_joined();
        outcome?;
        joined.grant()
    }

    /// Takes what is granted without a wait. Without a place it looks before it joins, so that a lock that is held
    /// costs the service no write.
    pub(crate) async fn try_once(&mut self, shared: &Shared) -> Result<Option<(Granted, QueueView)>> {
        if self.pending.is_none() {
            return self.wanted.try_once(shared).await;
        }
        let joined = self.join(shared).await?;
        match joined.is_granted_now().await {
            Ok(true) => self.take_joined().grant().map(Some),
            Ok(false) => Ok(None),
            // A failure that may pass does not cost a place that stands.
            Err(error) if error.advice() != Advice::Permanent && joined.stands() => Err(error),
            Err(error) => {
                *self.pending = None;
                Err(error)
            }
        }
    }

    fn take_joined(&mut self) -> JoinedPlace {
        self.pending.take().and_then(|pending| pending.into_joined()).expect("it has a place")
    }
}

impl GrantAttempt for PlaceAttempt<'_> {
    type Granted = Granted;

    fn opener<'s>(&self, shared: &'s Shared) -> &'s Opener<Arc<dyn Session>> {
        self.wanted.opener(shared)
    }

    fn at_once(
        &mut self,
        shared: &Shared,
        progress: &mut WaitProgress,
        context: &mut Context<'_>,
    ) -> Poll<Result<Granted>> {
        self.poll_at_once(shared, progress, context).map_ok(|(granted, _)| granted)
    }

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Granted> {
        let asking = self.wanted.asking;
        let joined = self.join(shared).await?;
        *progress = WaitProgress::Placed;
        if let Some(asking) = asking
            && let Err(refused) = joined.ask(asking)
        {
            *self.pending = None;
            return Err(refused);
        }
        self.granted(shared).await.map(|(granted, _)| granted)
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Granted>> {
        Ok(PlaceAttempt::try_once(self, shared).await?.map(|(granted, _)| granted))
    }
}

/// Asks for a place in line, without the wait for its turn.
#[derive(Debug)]
pub(crate) struct LineAttempt<'a>(pub(crate) OnePlace<'a>);

impl GrantAttempt for LineAttempt<'_> {
    type Granted = JoinedPlace;

    async fn wait(&mut self, shared: &Shared, _progress: &mut WaitProgress) -> Result<JoinedPlace> {
        let session = self.0.session(shared).await?;
        self.0.join(shared, session).await
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<JoinedPlace>> {
        self.wait(shared, &mut WaitProgress::NoPlace(None)).await.map(Some)
    }
}
