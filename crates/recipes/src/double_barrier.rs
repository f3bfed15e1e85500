//! A way that opens when enough members have come, and lets them out together.

mod round;

#[cfg(test)]
mod tests;

use std::fmt;

use lockkeeper_core::{ErrorKind, Liveness, Mode, Modes, QueueName, Result, Ticket, Wait};

use crate::contend::{grant, lost_error, refused};
use crate::double_barrier::round::{Inside, OneRound, RoundGone};
use crate::hold::Hold;
use crate::keeper::Keeper;
use crate::lock::guard::{Guard, kind};
use crate::lock::{Lock, granted};
use crate::shared::call;

/// The most members that a double barrier waits for: the names of a round, and of the members that were late to leave
/// an earlier one, must fit into one value.
pub const MEMBERS_MAX: u32 = 900;

/// A double barrier: members go in when the given number of them have come, and out when all of them have left.
///
/// Rounds follow one another. A member that comes while the whole of a round is inside joins it (Curator calls it
/// over-subscribed). Once a member of a round has left, or died, a member that comes is of the next round, and goes in
/// when enough others have come that are not inside yet. A member that dies is missing: members that wait for it to
/// come keep waiting, members that wait for it to leave do not.
///
/// Made by [`Keeper::double_barrier`]; cheap to clone. A timeout holds also while the connection is lost. If it is over
/// before the service has answered, the call fails with a transient error. Other failures that may pass are retried
/// under the keeper's retry policy; permanent errors are those of [`Mutex`](crate::Mutex).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
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
/// Curator's `DistributedDoubleBarrier`, whose `enter` a spurious wake-up could pass until GH-1290. The layout is ours.
#[derive(Clone)]
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    lock: Lock,
    members: u32,
}

impl Keeper {
    /// Returns the double barrier of this name, for the given number of members. All its users must give the same
    /// number.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] for no members, or more than [`MEMBERS_MAX`].
    #[doc(alias = "DistributedDoubleBarrier")]
    pub fn double_barrier(&self, name: &str, members: u32) -> Result<DoubleBarrier> {
        let lock = self.lock(name, Modes::BARRIER)?;
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

    /// Waits until enough members have come, however long it takes, and goes in with them. Dropping the future at any
    /// point leaves the barrier.
    ///
    /// At some moment between the call and its answer enough members had come; those still there then go in. A member
    /// keeps its place over a connection loss while the session lives. When the session ends, it comes anew under the
    /// next one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitReached`] if too many are inside.
    pub async fn enter(&self) -> Result<Entered> {
        self.enter_within(Wait::Forever).await.map(granted)
    }

    /// Waits until enough members have come, for as long as `wait` says, and goes in with them; `None` if the time was
    /// up first, and then it does not count as a member that has come.
    pub async fn enter_within(&self, wait: Wait) -> Result<Option<Entered>> {
        let caller = call::caller(&self.lock.shared, wait);
        let mut attempt = OneRound { queue: &self.lock.queue, members: self.members, caller };
        let answer = self.lock.answer(Mode::Member, wait, None, &mut attempt).await?;
        Ok(answer.map(|(call, Inside { granted, round })| {
            let guard = self.lock.guard(call, granted);
            Entered { lock: self.lock.clone(), guard, round }
        }))
    }
}

/// Proof of being inside a double barrier; dropping it leaves, without waiting for the others.
#[must_use = "the barrier is left when this is dropped"]
pub struct Entered {
    lock: Lock,
    guard: Guard<kind::Barrier>,
    round: Vec<Ticket>,
}

impl Entered {
    /// Returns the hold of the place inside. For the others, a member whose hold is lost has left.
    pub fn hold(&self) -> &Hold {
        self.guard.hold()
    }

    /// Leaves, and waits until all others of the round have left or died, however long it takes, under a new session if
    /// need be. Members that joined the round late belong to it. If the future is dropped, we have left all the same.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], if our place had been lost before, so that the others may have gone on without
    /// us.
    pub async fn leave(self) -> Result<()> {
        self.leave_within(Wait::Forever).await.map(granted)
    }

    /// Leaves, and waits until all others of the round have left, for as long as `wait` says; `None` if the time was up
    /// first.
    pub async fn leave_within(self, wait: Wait) -> Result<Option<()>> {
        let Self { lock, guard, round } = self;
        let wait = wait.starting(lock.shared.clock.now());
        let lost = match guard.hold().liveness() {
            Liveness::Lost(reason) => Some(reason),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => None,
        };
        let release = guard.release();
        if let Some(reason) = lost {
            // No other member counts on us any more, and the release goes on in the background.
            return Err(lost_error(&lock.queue, reason));
        }
        let Some(left) = lock.shared.by(wait, release).await else {
            return Ok(None);
        };
        match left {
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => return Err(error),
            // It goes on in the background.
            Ok(()) | Err(_) => {}
        }
        grant(&lock.shared, &lock.queue, &mut RoundGone { queue: &lock.queue, round }, wait, None).await
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
