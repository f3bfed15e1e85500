//! The lock of which several may hold a part at a time.

use std::fmt;
use std::time::Duration;

use crate::backend::ENTRIES_MAX;
use crate::contend::{Bound, Patience, SomePermits, refused};
use crate::contender::Mode;
use crate::lock::{Lock, granted};
use crate::{Permit, QueueName, Result};

/// How many permits a semaphore has.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Permits {
    /// So many. Everybody who uses the semaphore must say the same number; who says another one while permits are held
    /// gets [`ErrorKind::BoundMismatch`](crate::ErrorKind::BoundMismatch).
    Fixed(u32),
    /// As many as the [`SharedCounter`](crate::SharedCounter) of this name says at any time: raising it lets waiters
    /// in, lowering it takes no permit away. None while there is no counter.
    Counter(String),
}

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self::Fixed(permits)
    }
}

/// A semaphore: so many permits, and one queue of those who wait for some.
///
/// First come, first served: whoever wants many permits is not passed by those who want few. All permits that are asked
/// for in one call are granted at once, never some while the rest is waited for, so two who want most of them cannot
/// block each other. With one permit it is a mutex whose permit any task may give back, and Curator's
/// `InterProcessSemaphoreMutex`.
///
/// Made by [`Keeper::semaphore`](crate::Keeper::semaphore); cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// # let keeper = lockkeeper_core::Keeper::memory();
/// let connections = keeper.semaphore("connections", 3)?;
/// let one = connections.acquire().await?;
/// let two = connections.acquire_many(2).await?;
/// assert!(connections.try_acquire().await?.is_none());
/// one.release().await?;
/// drop(two);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessSemaphoreV2")]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct Semaphore {
    lock: Lock,
    bound: Bound,
}

impl Semaphore {
    pub(crate) fn new(lock: Lock, permits: Permits) -> Result<Self> {
        let bound = match permits {
            Permits::Fixed(0) => return Err(refused(&lock.queue, "a semaphore without permits can grant none")),
            Permits::Fixed(permits) => Bound::Agreed(permits),
            Permits::Counter(name) => Bound::Counted(QueueName::new(&name)?),
        };
        Ok(Self { lock, bound })
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Lets each hold of this semaphore last for `limit` after its grant at most.
    ///
    /// Then [`Hold::lost`](crate::Hold::lost) says [`LossReason::MaxHold`](crate::LossReason::MaxHold), its permit is
    /// given back by itself, for which a runtime must run, and [`Guard::release`](crate::Guard::release) reports it. It
    /// concerns the holds of this handle and of its clones, and nobody else's.
    #[must_use]
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.lock.limits.max_hold = Some(limit);
        self
    }

    /// Keeps the place of each hold of this semaphore for `limit` after its grant at least, so that nobody else is
    /// granted its permit earlier: a job that is done in a second is not done again on the next machine whose clock is
    /// late.
    ///
    /// The hold itself is over when its guard is released or dropped, also in a panic; the place is left later, as long
    /// as this process and the runtime of the grant live and the keeper is not closed. A shorter `max_hold` wins.
    #[must_use]
    pub fn min_hold(mut self, limit: Duration) -> Self {
        self.lock.limits.min_hold = Some(limit);
        self
    }

    /// Waits for one permit, however long it takes.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock); and [`ErrorKind::BoundMismatch`](crate::ErrorKind::BoundMismatch),
    /// permanent, if those who hold permits say that there is another number of them.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the queue; the place in line is lost.
    ///
    /// # Ordering
    ///
    /// First come, first served.
    ///
    /// # On connection loss
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await.map(|mut permits| permits.pop().expect("one permit was granted"))
    }

    /// Takes one permit if one is free and nobody waits; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`], and transient ones too: nothing is tried again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves nothing behind.
    ///
    /// # Ordering
    ///
    /// It never passes a waiter.
    ///
    /// # On connection loss
    ///
    /// Fails with a transient error.
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await.map(|permits| permits?.pop())
    }

    /// Waits for one permit, at most for `timeout`; `None` if the time was up first.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`]; and a transient one if the time was up before a place in the queue was had.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the queue.
    ///
    /// # Ordering
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # On connection loss
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_timeout(1, timeout).await.map(|permits| permits?.pop())
    }

    /// Waits for so many permits, granted all at once; each may be given back by itself.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`]; and [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest), permanent, for
    /// no permit, for more than there are, or for more than [`ENTRIES_MAX`].
    ///
    /// # Cancellation
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Ordering
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # On connection loss
    ///
    /// As [`Semaphore::acquire`].
    pub async fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>> {
        self.grant(permits, Patience::Endless).await.map(granted)
    }

    /// Takes so many permits if they are free and nobody waits; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire_many`], and transient ones too: nothing is tried again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves nothing behind.
    ///
    /// # Ordering
    ///
    /// It never passes a waiter.
    ///
    /// # On connection loss
    ///
    /// Fails with a transient error.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>> {
        self.grant(permits, Patience::None).await
    }

    /// Waits for so many permits, at most for `timeout`; `None` if the time was up first, and then none is held.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire_many`]; and a transient one if the time was up before a place in the queue was had.
    ///
    /// # Cancellation
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Ordering
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # On connection loss
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout).
    pub async fn acquire_many_timeout(&self, permits: u32, timeout: Duration) -> Result<Option<Vec<Permit>>> {
        self.grant(permits, Patience::within(&self.lock.shared, timeout)).await
    }

    async fn grant(&self, wanted: u32, patience: Patience) -> Result<Option<Vec<Permit>>> {
        self.check(wanted)?;
        let attempt = SomePermits { lock: &self.lock.queue, wanted, bound: &self.bound };
        self.lock.grant_all(&attempt, Mode::Permit, patience, |granted| granted).await
    }

    /// Refuses at once what could never be granted.
    fn check(&self, wanted: u32) -> Result<()> {
        let queue = &self.lock.queue;
        if wanted == 0 {
            return Err(refused(queue, "no permit was asked for"));
        }
        if wanted as usize > ENTRIES_MAX {
            return Err(refused(
                queue,
                format!("{wanted} permits were asked for, and {ENTRIES_MAX} at once are the most"),
            ));
        }
        match self.bound {
            Bound::Agreed(permits) if wanted > permits => {
                Err(refused(queue, format!("{wanted} permits were asked for, and there are only {permits}")))
            }
            Bound::Agreed(_) | Bound::Counted(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Semaphore").field("name", &self.lock).field("bound", &self.bound).finish()
    }
}
