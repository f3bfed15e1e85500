//! Proof of holding a lock: gives it back when it is dropped. [`Hold`] tells whether it is still held.

pub(crate) mod held_place;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ErrorKind, FencingToken, Liveness, LossReason, Operation, QueueName, Result, Withdrawal};
use tracing::field::display;

use crate::contend::{Granted, lost_error};
use crate::deadlock::{KeyCall, KeyHold};
use crate::event::Event;
use crate::hold::Hold;
use crate::hold::HoldParts;
use crate::hold::list::OnList;
use crate::lock::guard::held_place::HeldPlace;
use crate::lock::guard::held_place::{HoldLimits, Term, leave_at_end};
use crate::shared::Shared;
use crate::shared::call::spans::{self, Collected};
use crate::shared::call::{Answered, LockCall};

/// Proof that this process holds a lock, or one permit of a semaphore; `Kind` says which.
///
/// In the guide: [losing a lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/losing_a_lock/index.html).
///
/// Dropping it gives the lock back in the background: at once where the service can, else by the session's task, which
/// goes on until the release is certain. It may be dropped anywhere: also on a thread without a runtime, after the
/// runtime's end or in a panic. The drop neither panics nor blocks. [`Guard::release`] does the same and reports.
///
/// A guard can outlive its hold: when the session is lost, the service grants the lock to the next contender. Ask
/// [`Hold::is_held`] before work that must not be done twice, and give [`Hold::fencing_token`] to a resource that can
/// check it.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard<Kind> {
    /// Present until the guard is released.
    place: Option<HeldPlace>,
    hold: Hold,
    shared: Arc<Shared>,
    granted_at: BootInstant,
    /// In a box, since most locks have no limits and guards are moved.
    term: Option<Box<Term>>,
    /// The span of the hold.
    span: Collected,
    /// After `place`, so that the lock is given back before it leaves the list. Present until the guard is dropped.
    listed: Option<OnList>,
    /// Has the owner key that it was granted to known as its holder.
    key_hold: Option<KeyHold>,
    kind: PhantomData<fn() -> Kind>,
}

/// What a [`Guard`] is a proof of.
#[expect(clippy::exhaustive_enums, reason = "they have no values")]
pub mod kind {
    /// A mutex.
    #[derive(Debug)]
    pub enum Mutex {}
    /// A share of a read/write lock.
    #[derive(Debug)]
    pub enum Read {}
    /// A read/write lock, alone.
    #[derive(Debug)]
    pub enum Write {}
    /// One permit of a semaphore.
    #[derive(Debug)]
    pub enum Permit {}
    /// The lead of an election.
    #[derive(Debug)]
    pub enum Lead {}
    /// A place inside a double barrier.
    #[derive(Debug)]
    pub enum Barrier {}
}

/// Proof that this process holds a mutex.
#[doc(alias = "InterProcessMutex")]
pub type MutexGuard = Guard<kind::Mutex>;

/// Proof that this process shares a read/write lock with other readers.
#[doc(alias = "ReadLock")]
pub type ReadGuard = Guard<kind::Read>;

/// Proof that this process holds a read/write lock alone.
#[doc(alias = "WriteLock")]
pub type WriteGuard = Guard<kind::Write>;

/// Proof that this process holds one permit of a semaphore; any task may release it.
#[doc(alias = "Lease")]
pub type Permit = Guard<kind::Permit>;

impl<Kind> Guard<Kind> {
    /// Makes the guard of a grant; the call, which is listed, becomes a hold.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &QueueName,
        granted: Granted<impl Into<HeldPlace>>,
        limits: HoldLimits,
        call: LockCall,
    ) -> Self {
        let Granted { place, grant } = granted;
        let (place, token): (HeldPlace, _) = (place.into(), grant.token);
        let granted_at = place.granted_at().unwrap_or_else(|| shared.clock.now());
        if matches!(place, HeldPlace::Place(_)) {
            grant.standing.granted();
        }
        let waited = granted_at.saturating_duration_since(call.begun_at);
        shared.observers.emit(&Event::Granted { lock: queue.clone(), mode: call.mode, token, waited });
        let term = Term::begin(limits, granted_at).map(Box::new);
        let ends_at = term.as_ref().and_then(|term| term.ends_at);
        let Answered { listed, holding, span: wait } = call.granted(granted_at);
        let span = spans::hold(queue, token, wait.as_deref());
        let (home, bond, observers) = (shared.home, place.session().bond().clone(), shared.observers.clone());
        let (queue, end_of_place) = (queue.clone(), place.end_of_place());
        let hold = Hold::new(HoldParts { home, bond, observers, queue, grant, end_of_place, ends_at, holding });
        if ends_at.is_some() {
            leave_at_end(&hold, &place);
        }
        listed.note_hold(hold.clone());
        let shared = shared.clone();
        Self {
            place: Some(place),
            hold,
            shared,
            granted_at,
            term,
            span,
            listed: Some(listed),
            key_hold: None,
            kind: PhantomData,
        }
    }

    /// Returns the [`Hold`] of this guard. Its clones are cheap, may go anywhere and never release.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Has the owner key of this call known as the holder. One whose time ends by itself keeps no other key waiting for
    /// ever.
    pub(crate) fn of_key(mut self, asking: &KeyCall) -> Self {
        if self.term.as_ref().is_some_and(|term| term.ends_at.is_some()) {
            return self;
        }
        let hold = self.hold.clone();
        self.key_hold = Some(asking.holds(Box::new(move || hold.seems_held())));
        self
    }

    /// Returns when it was granted.
    pub(crate) const fn granted_at(&self) -> BootInstant {
        self.granted_at
    }

    /// Returns the grant's token.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token()
    }

    /// Gives the lock back and waits until that is certain.
    ///
    /// The release is under way when this returns its future, before the first poll, and goes on if the future is
    /// dropped: until the service has answered or the session has ended, also over a connection loss. The hold is over
    /// at once. With a [`min_hold`](crate::Mutex::min_hold) its place is left, and the future done, no earlier than
    /// that limit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], with [`Advice::AskAgain`](lockkeeper_core::Advice::AskAgain), if the hold had been lost
    /// before: another client may have been granted the lock while this process still believed its hold. A hold that
    /// had ended by its [`max_hold`](crate::Mutex::max_hold) fails in the same way. The loss is reported for every
    /// answer of the service, also if only that answer reveals it: a process that stood still learns of it then.
    /// Transient if the service could not be told yet; it is told as soon as it can be. Permanent, such as
    /// [`ErrorKind::Refused`], if the service refuses it; it is tried again in the
    /// background, and until that succeeds or the session ends the lock stays taken.
    pub fn release(mut self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (hold, now) = (self.hold.clone(), self.shared.clock.now());
        let is_ours = self.shared.home.check_at(now, Operation::Leave).map_err(|error| error.at(hold.name()));
        let (lost, withdrawal) = match self.place.take_if(|_| is_ours.is_ok()) {
            Some(place) => {
                let lost = self.end(&place, now);
                (lost, Some(self.leave(place, lost, now)))
            }
            None => (None, None),
        };
        async move {
            is_ours?;
            let left = match withdrawal {
                Some(withdrawal) => withdrawal.await,
                None => Ok(()),
            };
            match (lost, left) {
                // The holder must learn of the loss, also if leaving succeeded.
                (Some(reason), _) => Err(lost_error(hold.name(), reason)),
                (None, Err(error)) => match error.kind() {
                    ErrorKind::Lost(reason) => Err(lost_error(hold.name(), hold.note_loss(reason))),
                    _ => Err(error.at(hold.name())),
                },
                (None, Ok(())) => Ok(()),
            }
        }
    }

    /// Ends nothing in a fork of the guard's process, which has the lock: all that would is never dropped here.
    fn leave_to_parent(&mut self, place: HeldPlace) {
        std::mem::forget((place, self.listed.take(), self.key_hold.take(), self.span.take()));
        std::mem::forget((self.hold.clone(), self.shared.clone()));
    }

    /// Leaves the place of a hold that is over.
    fn leave(&self, place: HeldPlace, lost: Option<LossReason>, now: BootInstant) -> Withdrawal {
        match (&self.term, lost) {
            (Some(term), None) => term.leave(&self.shared.clock, place, now),
            // A lost place cannot be kept for its least time.
            (_, lost) => place.leave(lost.is_some(), now),
        }
    }

    pub(crate) fn limits(&self) -> HoldLimits {
        self.term.as_ref().map(|term| term.limits).unwrap_or_default()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the held place; `None` once the guard is released.
    pub(crate) fn place(&self) -> Option<&HeldPlace> {
        self.place.as_ref()
    }

    /// Ends the hold of this place now; returns the reason if it had been lost before.
    fn end(&self, place: &HeldPlace, now: BootInstant) -> Option<LossReason> {
        let liveness = match place {
            HeldPlace::Local(_) => self.hold.liveness_at_turn(now),
            _ => self.hold.liveness(),
        };
        let lost = match liveness {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        self.hold.note_release(now);
        if let (Some(reason), Some(span)) = (lost, &self.span) {
            span.record("lost", display(reason));
        }
        let held = now.saturating_duration_since(self.granted_at);
        let (lock, token) = (self.hold.name().clone(), self.hold.fencing_token());
        self.shared.observers.emit(&Event::Released { lock, token, held, lost });
        lost
    }
}

/// Runs `work`, dropping it at its next await if the hold is lost, and then gives the lock back. The release reports a
/// loss that the work did not notice.
pub(crate) async fn run_under<Work, Running, Output, Releasing>(
    hold: Hold,
    work: Work,
    release: impl FnOnce() -> Releasing,
) -> Result<Output>
where
    Work: FnOnce(Hold) -> Running,
    Running: Future<Output = Output>,
    Releasing: Future<Output = Result<()>>,
{
    let output = tokio::select! {
        biased;
        reason = hold.lost() => Err(lost_error(hold.name(), reason)),
        output = work(hold.clone()) => Ok(output),
    }?;
    match release().await {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Err(error),
        // The work is done and the release goes on in the background.
        Ok(()) | Err(_) => Ok(output),
    }
}

impl<Kind> Drop for Guard<Kind> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let now = self.shared.clock.now();
        if self.shared.home.is_left_at(now) {
            return self.leave_to_parent(place);
        }
        let lost = self.end(&place, now);
        // It goes on in the background, and no caller is left to report to.
        drop(self.leave(place, lost, now));
    }
}

impl<Kind> fmt::Debug for Guard<Kind> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Guard").field(&self.hold).finish()
    }
}
