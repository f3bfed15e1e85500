//! The proof of holding several locks.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use lockkeeper_core::{BoxFuture, FencingToken, LossReason, QueueName, Result};

use crate::hold::Hold;
use crate::lock::guard::{MutexGuard, ReadGuard, WriteGuard};
use crate::owner_key::Reentrant;

/// The hold of one member.
#[derive(Debug)]
pub(super) enum TakenMember {
    Mutex(Reentrant<MutexGuard>),
    Read(Reentrant<ReadGuard>),
    Write(Reentrant<WriteGuard>),
}

impl TakenMember {
    fn hold(&self) -> &Hold {
        match self {
            Self::Mutex(guard) => guard.hold(),
            Self::Read(guard) => guard.hold(),
            Self::Write(guard) => guard.hold(),
        }
    }

    fn release(self) -> BoxFuture<Result<()>> {
        match self {
            Self::Mutex(guard) => Box::pin(guard.release()),
            Self::Read(guard) => Box::pin(guard.release()),
            Self::Write(guard) => Box::pin(guard.release()),
        }
    }
}

/// Proof that this process holds all locks of a [`MultiLock`](crate::MultiLock).
///
/// Dropping it gives them all back, as dropping a [`Reentrant`] does, in the reverse of the order in which they were
/// taken.
#[must_use = "the locks are given back when the guard is dropped"]
pub struct MultiGuard {
    /// In the order in which they were taken.
    guards: Vec<TakenMember>,
}

impl MultiGuard {
    /// Returns each hold, in the order of the multi-lock: by service and name.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.guards.iter().map(TakenMember::hold)
    }

    /// Returns the token of each lock, by its name.
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&QueueName, FencingToken)> {
        self.holds().map(|hold| (hold.name(), hold.fencing_token()))
    }

    /// Tells whether all locks are held now. Once the answer was no, it never is yes again.
    pub fn is_held(&self) -> bool {
        self.holds().all(Hold::is_held)
    }

    /// Waits until one of the locks is no longer held, and returns which one and why. [`MultiGuard::is_held`] is false
    /// before this returns. After a connection loss it returns as [`Hold::lost`] does.
    pub async fn lost(&self) -> (QueueName, LossReason) {
        let (number, reason) = self.first_lost().await;
        (self.guards[number].hold().name().clone(), reason)
    }

    pub(super) const fn of_none() -> Self {
        Self { guards: Vec::new() }
    }

    pub(super) fn add(&mut self, taken: TakenMember) {
        self.guards.push(taken);
    }

    /// Waits until one hold is lost; never ends if there are no holds.
    pub(super) fn first_lost(&self) -> impl Future<Output = (usize, LossReason)> + Send + use<> {
        let watch = |hold: &Hold| -> BoxFuture<LossReason> {
            let hold = hold.clone();
            Box::pin(async move { hold.lost().await })
        };
        let mut losses: Vec<_> = self.holds().map(watch).collect();
        poll_fn(move |context| {
            for (number, loss) in losses.iter_mut().enumerate() {
                if let Poll::Ready(reason) = Pin::as_mut(loss).poll(context) {
                    return Poll::Ready((number, reason));
                }
            }
            Poll::Pending
        })
    }

    /// Gives all locks back and waits until that is certain, each as [`Guard::release`](crate::Guard::release) does.
    /// One that fails does not stop the others.
    ///
    /// All releases are under way when this returns its future, before the first poll, in the reverse of the order in
    /// which the locks were taken.
    ///
    /// # Errors
    ///
    /// The first of those of [`Guard::release`](crate::Guard::release).
    pub fn release(mut self) -> impl Future<Output = Result<()>> + Send + 'static {
        let releases: Vec<_> = std::mem::take(&mut self.guards).into_iter().rev().map(TakenMember::release).collect();
        async move {
            let mut outcome = Ok(());
            for release in releases {
                outcome = outcome.and(release.await);
            }
            outcome
        }
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(last) = self.guards.pop() {
            drop(last);
        }
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MultiGuard").field(&self.guards).finish()
    }
}
