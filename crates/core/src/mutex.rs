//! The exclusive lock.

use std::fmt;
use std::time::Duration;

use crate::contend::Patience;
use crate::contender::Mode;
use crate::lock::{Lock, granted};
use crate::{Hold, MutexGuard, OwnerKey, QueueName, Result};

/// An exclusive lock with one queue: first come, first served, across all processes that use the service.
///
/// Made by [`Keeper::mutex`](crate::Keeper::mutex); cheap to clone. It is not reentrant: a task that locks it twice
/// waits for itself, unless it locks it as the same [`OwnerKey`], or by [`Mutex::run`] within [`Mutex::run`].
///
/// It is the exclusive side of the [`RwLock`](crate::RwLock) of its name: the two exclude one another in one queue. Only
/// on a ZooKeeper path that is shared with other clients they are two kinds of lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// # let keeper = lockkeeper_core::Keeper::memory();
/// let mutex = keeper.mutex("reports")?;
/// let guard = mutex.lock().await?;
/// println!("reports are ours, with token {}", guard.fencing_token());
/// assert!(mutex.try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessMutex")]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct Mutex {
    lock: Lock,
}

impl Mutex {
    pub(crate) const fn new(lock: Lock) -> Self {
        Self { lock }
    }

    /// Returns what every kind of lock is made of.
    pub(crate) const fn lock_itself(&self) -> &Lock {
        &self.lock
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Lets each hold of this mutex last for `limit` after its grant at most.
    ///
    /// Then [`Hold::lost`] says [`LossReason::MaxHold`](crate::LossReason::MaxHold), the lock is given back by itself,
    /// for which a runtime must run, and [`Guard::release`](crate::Guard::release) reports it. It concerns the holds of
    /// this handle and of its clones, and nobody else's.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// use std::time::Duration;
    /// use lockkeeper_core::LossReason;
    ///
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// let mutex = keeper.mutex("reports")?.max_hold(Duration::from_millis(5));
    /// let forgotten = mutex.lock().await?;
    /// let next = mutex.lock().await?;
    /// assert_eq!(forgotten.hold().lost().await, LossReason::MaxHold);
    /// # drop(next);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.lock.limits.max_hold = Some(limit);
        self
    }

    /// Keeps the place of each hold of this mutex for `limit` after its grant at least, so that nobody else is granted
    /// it earlier: a job that is done in a second is not done again on the next machine whose clock is late.
    ///
    /// The hold itself is over when its guard is released or dropped, also in a panic; the place is left later, as long
    /// as this process and the runtime of the grant live and the keeper is not closed. A shorter `max_hold` wins.
    #[must_use]
    pub fn min_hold(mut self, limit: Duration) -> Self {
        self.lock.limits.min_hold = Some(limit);
        self
    }

    /// Tells whether this keeper, or a clone of it, holds this mutex now, in whichever task; costs no request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// let mutex = keeper.mutex("reports")?;
    /// assert!(!mutex.is_held_here());
    /// let guard = mutex.lock().await?;
    /// assert!(mutex.is_held_here());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "isAcquiredInThisProcess")]
    pub fn is_held_here(&self) -> bool {
        self.lock.shared.holds.has(&self.lock.queue, Mode::Mutex)
    }

    /// Waits for the lock, however long it takes.
    ///
    /// # Errors
    ///
    /// Permanent ones: access refused, a queue of another kind
    /// ([`ErrorKind::KindMismatch`](crate::ErrorKind::KindMismatch)), our contender removed by somebody
    /// ([`ErrorKind::Removed`](crate::ErrorKind::Removed)), the keeper closed. What may pass is tried again under the
    /// keeper's retry policy.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the queue; the place in line is lost.
    ///
    /// # Ordering
    ///
    /// Grants follow the order in which the service took the contenders in.
    ///
    /// # On connection loss
    ///
    /// Keeps its place while the session lives. When the session ends, it joins again at the tail under a new one and
    /// says so in [`Event::Rejoining`](crate::Event::Rejoining).
    #[doc(alias = "acquire")]
    pub async fn lock(&self) -> Result<MutexGuard> {
        self.lock.grant(Mode::Mutex, Patience::Endless).await.map(granted)
    }

    /// Takes the lock if it is free; `None` if somebody has it or queues for it.
    ///
    /// It looks before it joins: a lock that is taken costs the service no write.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`], and transient ones too: nothing is tried again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves nothing in the queue.
    ///
    /// # Ordering
    ///
    /// It never passes a waiter.
    ///
    /// # On connection loss
    ///
    /// Fails with a transient error.
    #[doc(alias = "tryLock")]
    pub async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.lock.grant(Mode::Mutex, Patience::None).await
    }

    /// Waits for the lock, at most for `timeout`; `None` if the time was up first.
    ///
    /// The timeout covers everything, also the opening of a session and attempts that failed. A timeout of zero is
    /// [`Mutex::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`]; and a transient one if the time was up before a place in the queue was had: the last that
    /// happened, or that the service has not answered.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the queue.
    ///
    /// # Ordering
    ///
    /// As [`Mutex::lock`].
    ///
    /// # On connection loss
    ///
    /// As [`Mutex::lock`]; the timeout is kept to whatever happens.
    #[doc(alias = "acquire")]
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        self.lock.grant(Mode::Mutex, Patience::within(&self.lock.shared, timeout)).await
    }

    /// Runs `work` under the lock, and drops it at its next await if the lock is lost.
    ///
    /// A `run` of the same mutex of the same keeper within `work` does not wait for the one around it: it counts on
    /// that one's hold. So does only what `work` itself awaits: a task that it spawns is somebody else. So is an
    /// [`OwnerKey`], and whoever calls [`Mutex::lock`]: within `work` they wait for `work` itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// let sum = keeper.mutex("sum")?.run(|hold| async move { hold.fencing_token().as_u64() + 1 }).await?;
    /// # assert!(sum > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`]; and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before the work was
    /// done, or had been lost by then without the work noticing; at once if it was lost by a `run` around this one.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the work and gives the lock back.
    ///
    /// # Ordering
    ///
    /// The lock is given back after the work is done or dropped.
    ///
    /// # On connection loss
    ///
    /// The work goes on for as long as the hold may be believed.
    pub async fn run<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        let held = owner.lock(self).await?;
        owner.run(held, work).await
    }

    /// Runs `work` under the lock as [`Mutex::run`] does, but waits for the lock at most for `timeout`; `None` if the
    /// time was up first, and then the work was not begun.
    ///
    /// The work itself may take as long as it likes; [`Mutex::max_hold`] bounds it. A timeout of zero takes the lock
    /// only if it is free.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// use std::time::Duration;
    ///
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// let sum = keeper.mutex("sum")?;
    /// let guard = sum.lock().await?;
    /// assert_eq!(sum.run_timeout(Duration::from_millis(1), |_hold| async { 6 * 7 }).await?, None);
    /// guard.release().await?;
    /// assert_eq!(sum.run_timeout(Duration::from_millis(1), |_hold| async { 6 * 7 }).await?, Some(42));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`], and as [`Mutex::lock_timeout`].
    ///
    /// # Cancellation
    ///
    /// As [`Mutex::run`].
    ///
    /// # Ordering
    ///
    /// As [`Mutex::run`].
    ///
    /// # On connection loss
    ///
    /// As [`Mutex::lock_timeout`], and then as [`Mutex::run`].
    pub async fn run_timeout<Work, Running, Output>(&self, timeout: Duration, work: Work) -> Result<Option<Output>>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        match owner.lock_timeout(self, timeout).await? {
            Some(held) => owner.run(held, work).await.map(Some),
            None => Ok(None),
        }
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Mutex").field(&self.lock).finish()
    }
}
