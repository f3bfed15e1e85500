//! Proof of holding a lock, and the answer to whether it still holds.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::BootInstant;
use crate::contend::{Granted, Place};
use crate::contender::ContenderId;
use crate::event::Event;
use crate::keeper::Shared;
use crate::{Error, ErrorKind, FencingToken, Liveness, LossReason, Operation, QueueName, Result, Standing};

/// Proof that this process holds a mutex.
///
/// Dropping it gives the lock back in the background: at once where the service can, else by the session's own task, which
/// goes on until it is certain. It may be dropped anywhere, also on a thread without a runtime, after the runtime's end or
/// in a panic; it neither panics nor blocks. [`MutexGuard::release`] does the same and reports.
///
/// A guard can outlive its hold: when the session is lost, the service grants the lock to the next. Ask
/// [`Hold::is_held`] before what must not be done twice, and give [`Hold::fencing_token`] to what can check it.
#[must_use = "the lock is given back when the guard is dropped"]
#[doc(alias = "InterProcessMutex")]
pub struct MutexGuard {
    /// Present until the guard is released.
    place: Option<Place>,
    hold: Hold,
    shared: Arc<Shared>,
    granted_at: BootInstant,
}

impl MutexGuard {
    pub(crate) fn new(shared: Arc<Shared>, queue: QueueName, granted: Granted, called_at: BootInstant) -> Self {
        let Granted { place, id, token, standing } = granted;
        let granted_at = shared.clock.now();
        let waited = granted_at.saturating_duration_since(called_at);
        shared.emit(&Event::Granted { lock: queue.clone(), token, waited });
        let state =
            HoldState { queue, id, token, standing, shared: shared.clone(), released: watch::Sender::new(false) };
        Self { place: Some(place), hold: Hold { state: Arc::new(state) }, shared, granted_at }
    }

    /// Returns what answers for this hold; a cheap clone that may go anywhere and never releases.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns the grant's token.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Gives the lock back and waits until that is certain.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], permanent, if the hold had been lost before: somebody else may have been granted the lock while
    /// this one was thought to be held. Transient if the service could not be told yet; it is told as soon as it can be.
    ///
    /// # Cancellation
    ///
    /// The lock is given back all the same.
    ///
    /// # Ordering
    ///
    /// The release is under way when this returns its future, before the first poll.
    ///
    /// # On connection loss
    ///
    /// Goes on until the service has heard of it or the session has ended.
    pub fn release(mut self) -> impl Future<Output = Result<()>> + Send + 'static {
        let queue = self.hold.state.queue.clone();
        let (lost, withdrawal) = match self.place.take() {
            Some(place) => (self.end(), Some(place.leave())),
            None => (None, None),
        };
        async move {
            if let Some(withdrawal) = withdrawal {
                withdrawal.await.map_err(|error| error.at(&queue))?;
            }
            match lost {
                None => Ok(()),
                Some(reason) => Err(lost_error(&queue, reason)),
            }
        }
    }

    /// Ends the hold, and says why it had been lost, if it had.
    fn end(&self) -> Option<LossReason> {
        let lost = match self.hold.liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        let state = &self.hold.state;
        state.released.send_replace(true);
        let held = self.shared.clock.now().saturating_duration_since(self.granted_at);
        self.shared.emit(&Event::Released { lock: state.queue.clone(), token: state.token, held, lost });
        lost
    }
}

impl Drop for MutexGuard {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.end();
            drop(place);
        }
    }
}

impl fmt::Debug for MutexGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MutexGuard").field(&self.hold).finish()
    }
}

pub(crate) fn lost_error(queue: &QueueName, reason: LossReason) -> Error {
    Error::permanent(ErrorKind::Lost(reason), Operation::Leave, format!("the lock was lost: {reason}")).at(queue)
}

/// The answer to whether a lock is still held; cheap to clone, and it never releases.
#[derive(Clone)]
pub struct Hold {
    state: Arc<HoldState>,
}

struct HoldState {
    queue: QueueName,
    id: ContenderId,
    token: FencingToken,
    standing: Arc<dyn Standing>,
    shared: Arc<Shared>,
    released: watch::Sender<bool>,
}

impl Hold {
    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.state.queue
    }

    /// Returns our identity in the queue.
    pub fn contender(&self) -> &ContenderId {
        &self.state.id
    }

    /// Returns the grant's token: greater than that of every grant before.
    pub fn fencing_token(&self) -> FencingToken {
        self.state.token
    }

    /// Tells whether the lock is held now. Once it said no, it never says yes again.
    pub fn is_held(&self) -> bool {
        self.liveness().is_held()
    }

    /// Returns what may be believed now, looked up at the call.
    pub fn liveness(&self) -> Liveness {
        // In this order, since to the standing our own release looks like a removal.
        let standing = self.state.standing.liveness();
        if *self.state.released.borrow() { Liveness::Lost(LossReason::Released) } else { standing }
    }

    /// Returns how long from now the hold may be believed if nothing more is heard: zero if it is lost, `None` if the
    /// service has no timeouts.
    pub fn safe_for(&self) -> Option<Duration> {
        match self.liveness().safe_until() {
            Some(safe_until) => safe_until.left(self.state.shared.clock.now()),
            None => Some(Duration::ZERO),
        }
    }

    /// Returns how long before the hold's deadline its holder is certainly warned that renewals fail: work that needs longer
    /// than this to be ended safely should not begin. `None` if the service has no timeouts.
    ///
    /// While renewals go well, [`Hold::safe_for`] does not fall below it.
    pub fn notice(&self) -> Option<Duration> {
        self.state.standing.notice()
    }

    /// Waits until the lock is no longer held, and says why; [`LossReason::Released`] if its guard gave it back.
    ///
    /// # Errors
    ///
    /// None.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// [`Hold::is_held`] says no before this returns.
    ///
    /// # On connection loss
    ///
    /// Returns when the hold may no longer be believed, before anybody else is granted the lock, under the service's
    /// stated bounds.
    pub async fn lost(&self) -> LossReason {
        let mut released = self.state.released.subscribe();
        tokio::select! {
            biased;
            _ = released.wait_for(|&released| released) => LossReason::Released,
            // To the standing our own release looks like a removal.
            reason = self.state.standing.lost() => {
                if *self.state.released.borrow() { LossReason::Released } else { reason }
            }
        }
    }

    /// Returns a file descriptor that keeps the lock for as long as it is open in any process, where the service has such
    /// a thing; for handing the lock to a process that may outlive this one.
    pub fn lifeline(&self) -> Option<OwnedFd> {
        if self.is_held() { self.state.standing.lifeline() } else { None }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hold")
            .field("lock", &self.state.queue.as_str())
            .field("token", &self.state.token)
            .field("liveness", &self.liveness())
            .finish()
    }
}
