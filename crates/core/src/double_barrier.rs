//! A gate that opens when enough have come, and lets them out together.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::contend::{OneRound, Patience, RoundGone, grant_by, lost_error, refused};
use crate::contender::{Mode, Ticket};
use crate::guard::{Guard, kind};
use crate::keeper::Shared;
use crate::lock::{Lock, granted};
use crate::{ErrorKind, Hold, Keeper, Liveness, QueueName, Result};

/// The most members that a double barrier waits for: the names of a round, and of those who were late to leave an
/// earlier one, must fit into one value.
pub const MEMBERS_MAX: u32 = 900;

/// A double barrier: members go in when so many of them have come, and out when all of them have left.
///
/// Rounds follow one another. Whoever comes while the whole of a round is inside joins it (Curator calls it
/// over-subscribed); once one of a round has left, or died, whoever comes is of the next, and goes in when enough
/// others have come who are not inside yet. A member that dies is missing: those who wait for it to come wait on, those
/// who wait for it to leave do not.
///
/// Made by [`Keeper::double_barrier`]; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// # let keeper = lockkeeper_core::Keeper::memory();
/// let barrier = keeper.double_barrier("phase", 2)?;
/// let (ann, bob) = tokio::try_join!(barrier.enter(), barrier.enter())?;
/// // Both are inside now.
/// tokio::try_join!(ann.leave(), bob.leave())?;
/// # Ok(())
/// # }
/// ```
///
/// # Source
///
/// Curator's `DistributedDoubleBarrier`, whose `enter` a spurious wake-up could pass until GH-1290. The layout is our
/// own.
#[derive(Clone)]
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    lock: Lock,
    members: u32,
}

impl Keeper {
    /// Returns the double barrier of this name that so many members go through together. Asking costs nothing.
    ///
    /// Everybody who uses it must say the same number.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if it is no name; [`ErrorKind::InvalidRequest`] for no members, or more than
    /// [`MEMBERS_MAX`].
    #[doc(alias = "DistributedDoubleBarrier")]
    pub fn double_barrier(&self, name: &str, members: u32) -> Result<DoubleBarrier> {
        let lock = self.lock(name)?;
        if members == 0 || members > MEMBERS_MAX {
            let message = format!("a double barrier has 1 to {MEMBERS_MAX} members, and {members} were asked for");
            return Err(refused(&lock.queue, message));
        }
        Ok(DoubleBarrier { lock, members })
    }
}

impl DoubleBarrier {
    /// Returns the barrier's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Waits until enough members have come, however long it takes, and goes in with them.
    ///
    /// # Errors
    ///
    /// Permanent ones, as [`Mutex::lock`](crate::Mutex::lock); [`ErrorKind::LimitReached`] if too many are inside. What
    /// may pass is tried again under the keeper's retry policy.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the barrier.
    ///
    /// # Ordering
    ///
    /// At some moment between the call and its answer enough members had come; whoever of them was still there then
    /// goes in.
    ///
    /// # On connection loss
    ///
    /// Keeps its place while the session lives. When the session ends, it comes anew under the next one.
    pub async fn enter(&self) -> Result<Entered> {
        self.enter_with(Patience::Endless).await.map(granted)
    }

    /// Waits until enough members have come, at most for `timeout`, and goes in with them; `None` if the time was up
    /// first, and then it does not count as one who has come.
    ///
    /// # Errors
    ///
    /// As [`DoubleBarrier::enter`]; and a transient one if the time was up before the service had answered.
    ///
    /// # Cancellation
    ///
    /// As [`DoubleBarrier::enter`].
    ///
    /// # Ordering
    ///
    /// As [`DoubleBarrier::enter`].
    ///
    /// # On connection loss
    ///
    /// As [`DoubleBarrier::enter`]; the timeout is kept to whatever happens.
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<Option<Entered>> {
        self.enter_with(Patience::within(&self.lock.shared, timeout)).await
    }

    async fn enter_with(&self, patience: Patience) -> Result<Option<Entered>> {
        let attempt = OneRound { queue: &self.lock.queue, members: self.members };
        let mut went_in = None;
        let guards = self.lock.grant_all(&attempt, Mode::Member, patience, |inside| {
            went_in = Some(inside.round);
            vec![inside.granted]
        });
        let guard = guards.await?.and_then(|mut guards| guards.pop());
        let entered = guard.zip(went_in);
        Ok(entered.map(|(guard, round)| Entered { lock: self.lock.clone(), guard, round }))
    }
}

/// Proof of being inside a double barrier; dropping it leaves, without waiting for the others.
#[must_use = "the barrier is left when this is dropped"]
pub struct Entered {
    lock: Lock,
    guard: Guard<kind::Member>,
    round: Vec<Ticket>,
}

impl Entered {
    /// Returns what answers for being inside: a member whose hold is lost has left, as far as the others can see.
    pub fn hold(&self) -> &Hold {
        self.guard.hold()
    }

    /// Leaves, and waits until all others of the round have left, however long it takes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], permanent, if our place had been lost before, so that the others may have gone on without
    /// us; other permanent ones as [`Mutex::lock`](crate::Mutex::lock). What may pass is tried again.
    ///
    /// # Cancellation
    ///
    /// We have left all the same.
    ///
    /// # Ordering
    ///
    /// Returns after every other member of the round has left or died. Those who joined the round late are of it.
    ///
    /// # On connection loss
    ///
    /// Goes on, under a new session if need be.
    pub async fn leave(self) -> Result<()> {
        self.leave_with(Patience::Endless).await.map(granted)
    }

    /// Leaves, and waits until all others of the round have left, at most for `timeout`; tells whether that came.
    ///
    /// # Errors
    ///
    /// As [`Entered::leave`]; and a transient one if the time was up before the service had answered.
    ///
    /// # Cancellation
    ///
    /// As [`Entered::leave`].
    ///
    /// # Ordering
    ///
    /// As [`Entered::leave`].
    ///
    /// # On connection loss
    ///
    /// As [`Entered::leave`]; the timeout is kept to whatever happens.
    pub async fn leave_timeout(self, timeout: Duration) -> Result<bool> {
        let patience = Patience::within(&self.lock.shared, timeout);
        self.leave_with(patience).await.map(|gone| gone.is_some())
    }

    async fn leave_with(self, patience: Patience) -> Result<Option<()>> {
        let Self { lock, guard, round } = self;
        let lost = match guard.hold().liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        let release = guard.release();
        if let Some(reason) = lost {
            // Nobody counts on us any more, and the release goes on by itself.
            return Err(lost_error(&lock.queue, reason));
        }
        let Some(left) = by(&lock.shared, patience, release).await else {
            return Ok(None);
        };
        match left {
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => return Err(error),
            // It goes on by itself.
            Ok(()) | Err(_) => {}
        }
        grant_by(&lock.shared, &RoundGone { queue: &lock.queue, round }, patience).await
    }
}

/// Waits for something as long as the patience lasts; what needs no wait is had without any.
async fn by<T>(shared: &Shared, patience: Patience, wanted: impl Future<Output = T>) -> Option<T> {
    let deadline = match patience {
        Patience::Endless => return Some(wanted.await),
        Patience::Until(deadline) => deadline,
        Patience::None => shared.clock.now(),
    };
    tokio::select! {
        biased;
        had = wanted => Some(had),
        () = shared.clock.sleep_until(deadline) => None,
    }
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DoubleBarrier")
            .field("name", &self.lock)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Entered").field(&self.guard).finish()
    }
}
