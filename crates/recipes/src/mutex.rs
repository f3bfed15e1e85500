//! The exclusive lock.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{Mode, Modes, QueueName, Result, Wait};

use crate::handoff::Handoff;
use crate::keeper::Keeper;
use crate::lock::guard::MutexGuard;
use crate::lock::{Lock, granted};

/// An exclusive lock with one queue: first come, first served, across all processes that use the service.
///
/// In the guide: [which lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
///
/// Made by [`Keeper::mutex`]; cheap to clone. It is not reentrant: a task that locks it twice
/// waits for itself, unless it locks it as the same [`OwnerKey`](crate::OwnerKey), or by [`Mutex::run`] within
/// [`Mutex::run`].
///
/// It is the exclusive side of the [`RwLock`](crate::RwLock) of its name: the two exclude one another in one queue.
/// Only on a ZooKeeper path that is shared with other clients are they two kinds of lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let mutex = keeper.mutex("reports")?;
/// let guard = mutex.lock().await?;
/// println!("reports are ours, with token {}", guard.fencing_token());
/// assert!(mutex.try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # All methods that wait
///
/// - Order: grants follow the order in which the service took the contenders in. No call passes a waiter.
/// - Cancellation: dropping the future at any point leaves the queue. The place in line is lost.
/// - Errors: a failure that may pass is retried under the keeper's retry policy. A permanent error ends the wait:
///   access refused, a queue of another kind ([`ErrorKind::KindMismatch`](lockkeeper_core::ErrorKind::KindMismatch)),
///   our contender removed by another client or an operator
///   ([`ErrorKind::Removed`](lockkeeper_core::ErrorKind::Removed)), the keeper closed
///   ([`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed)).
/// - Connection loss: a contender keeps its place while the session lives. When the session ends, it joins again at the
///   tail under a new one and reports [`Event::Rejoining`](crate::Event::Rejoining).
/// - A call without a wait (`try_…`, `Wait::No`, a time of zero) retries nothing: it also returns transient errors,
///   such as the one after a connection loss.
/// - A time (`…_timeout`, `Wait::AtMost`, `Wait::Until`) covers everything, also the opening of a session and attempts
///   that failed. It holds also while the connection is lost. A timeout of zero is the call that tries. If the time is
///   up before a place in the queue was reached, the answer is a transient error and not `None`: the last failure, or
///   that the service has not answered.
#[derive(Clone)]
#[doc(alias = "InterProcessMutex")]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct Mutex {
    pub(crate) lock: Lock,
}

impl Keeper {
    /// Returns the mutex of this name.
    pub fn mutex(&self, name: &str) -> Result<Mutex> {
        Ok(Mutex { lock: self.lock(name, Modes::MUTEX)? })
    }
}

impl Mutex {
    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Tells whether this keeper, or a clone of it, holds this mutex now, in any task; costs no request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
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

    /// Lets each hold of this mutex last for `limit` after its grant at most.
    ///
    /// Then [`Hold::lost`](crate::Hold::lost) says [`LossReason::MaxHold`](lockkeeper_core::LossReason::MaxHold), the
    /// lock is given back automatically, which needs a running runtime, and [`Guard::release`](crate::Guard::release)
    /// reports it. It applies to the holds of this handle and of its clones, and to no others.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    /// use lockkeeper::LossReason;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let mutex = keeper.mutex("reports")?.max_hold(Duration::from_millis(5));
    /// let forgotten = mutex.lock().await?;
    /// let next = mutex.lock().await?;
    /// assert_eq!(forgotten.hold().lost().await, LossReason::MaxHold);
    /// # drop(next);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit) }
    }

    /// Keeps the place of each hold of this mutex for at least `limit` after its grant. No other contender is granted
    /// it earlier: a job that takes a second does not run again on the next machine whose clock is late.
    ///
    /// The hold itself is over when its guard is released or dropped, also in a panic. The place is left later,
    /// provided that this process and the runtime of the grant still live and the keeper is not closed. A shorter
    /// `max_hold` wins.
    #[must_use]
    pub fn min_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.min_hold(limit) }
    }

    /// Has this mutex go from task to task in this way.
    ///
    /// It applies to this handle and to its clones. A mutex with a [`min_hold`](Mutex::min_hold) is
    /// [`Handoff::Strict`], and so is [`Mutex::queue_up`].
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { lock: self.lock.handoff(handoff) }
    }

    /// Waits for the lock, however long it takes.
    #[doc(alias = "acquire")]
    pub async fn lock(&self) -> Result<MutexGuard> {
        self.lock.grant(&self.lock.plan(Mode::Mutex, Wait::Forever)).await.map(granted)
    }

    /// Takes the lock if it is free; `None` if another contender holds it or waits for it.
    ///
    /// It looks before it joins: a lock that is taken costs the service no write. On a database it may last 1.25
    /// session timeouts, where the session is young and the holder seems dead: its silence must be observed.
    #[doc(alias = "tryLock")]
    pub async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.lock_within(Wait::No).await
    }

    /// Waits for the lock, at most for `timeout`; `None` if the time was up first.
    #[doc(alias = "acquire")]
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        self.lock_within(Wait::AtMost(timeout)).await
    }

    /// Waits for the lock, for as long as `wait` says; `None` if the time was up first.
    pub async fn lock_within(&self, wait: Wait) -> Result<Option<MutexGuard>> {
        self.lock.grant(&self.lock.plan(Mode::Mutex, wait)).await
    }

    /// Waits for the lock as [`Mutex::lock`] does, in a future that owns this handle: a task can be spawned with it, or
    /// a field can keep it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let mutex = keeper.mutex("reports")?;
    /// let busy = mutex.lock().await?;
    /// let waiting = tokio::spawn(mutex.clone().lock_owned());
    /// busy.release().await?;
    /// let guard = waiting.await.expect("the task did not panic")?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The other waits are owned by an `async move` block: `async move { mutex.lock_timeout(limit).await }`. All guards
    /// own what they need.
    pub async fn lock_owned(self) -> Result<MutexGuard> {
        self.lock().await
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Mutex").field(&self.lock).finish()
    }
}
