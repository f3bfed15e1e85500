//! The guard that is one of several on one hold.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{FencingToken, Liveness, LossReason, Result};

use crate::contend::lost_error;
use crate::hold::Hold;
use crate::lock::guard::{Guard, run_under};
use crate::owner_key::places::Held;

/// Proof that an owner holds a lock; one of several on the same hold, which ends with the last of them.
///
/// Made by an [`OwnerKey`](crate::OwnerKey): a `Reentrant<MutexGuard>`, `Reentrant<ReadGuard>` or
/// `Reentrant<WriteGuard>`. They may be dropped in any order and anywhere; dropping the last one gives the lock back in
/// the background, as dropping a [`Guard`] does.
#[must_use = "the lock is given back when its last guard is dropped"]
pub struct Reentrant<G> {
    held: Arc<Held<G>>,
}

impl<Kind> Reentrant<Guard<Kind>> {
    pub(super) const fn new(held: Arc<Held<Guard<Kind>>>) -> Self {
        Self { held }
    }

    /// Returns the [`Hold`] of this guard. Its clones are cheap, may go anywhere and never release.
    pub fn hold(&self) -> &Hold {
        self.held.guard().hold()
    }

    /// Returns the grant's token, which is the same for all guards on the hold.
    pub fn fencing_token(&self) -> FencingToken {
        self.hold().fencing_token()
    }

    /// Gives up this guard; if it is the last one, gives the lock back and waits until that is certain, as
    /// [`Guard::release`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`]; [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) also if other guards still
    /// share the lost hold.
    pub fn release(self) -> impl Future<Output = Result<()>> + Send + 'static {
        let hold = self.hold().clone();
        let last = Arc::into_inner(self.held).map(Held::release);
        async move {
            match (last, hold.liveness()) {
                (Some(release), _) => release.await,
                // Of two guards that are given up at once, the other may have given the lock back.
                (None, Liveness::Lost(reason)) if reason != LossReason::Released => {
                    Err(lost_error(hold.name(), reason))
                }
                (None, _) => Ok(()),
            }
        }
    }

    /// Runs `work`, dropping it at its next await if the hold is lost, and then gives up this guard.
    pub(crate) async fn run<Work, Running, Output>(self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let hold = self.hold().clone();
        run_under(hold, work, move || self.release()).await
    }
}

impl<G: fmt::Debug> fmt::Debug for Reentrant<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Reentrant").field(&self.held).finish()
    }
}
