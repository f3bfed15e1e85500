//! Work under a mutex or a side of a read/write lock, for as long as it is held.
//!
//! Each `run` locks as an owner that nested ones share, so this room lies above the locks and the owners. How the
//! owners of nested closures are found is `owner_key`'s.

use std::time::Duration;

use lockkeeper_core::{Result, Wait};

use crate::hold::Hold;
use crate::mutex::Mutex;
use crate::owner_key::OwnerKey;
use crate::rw_lock::RwLock;

impl Mutex {
    /// Runs `work` under the lock, and drops it at its next await if the lock is lost. The lock is given back after the
    /// work is done or dropped; dropping the future drops the work.
    ///
    /// A `run` of the same mutex of the same keeper within `work` does not wait for the enclosing one: it shares that
    /// hold. This applies only to what `work` itself awaits. A task that `work` spawns, an [`OwnerKey`] and a call of
    /// [`Mutex::lock`] are separate contenders: within `work` they wait for `work` itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let sum = keeper.mutex("sum")?.run(|hold| async move { hold.fencing_token().as_u64() + 1 }).await?;
    /// # assert!(sum > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) if the lock was lost before the work was done, also if the
    /// work did not notice; at once if the enclosing `run` has lost it.
    ///
    /// # On connection loss
    ///
    /// The work goes on while the hold may be believed.
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
    /// The timeout does not limit the work itself; [`Mutex::max_hold`] does. A timeout of zero takes the lock only if
    /// it is free.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let sum = keeper.mutex("sum")?;
    /// let guard = sum.lock().await?;
    /// assert_eq!(sum.run_timeout(Duration::from_millis(1), |_hold| async { 6 * 7 }).await?, None);
    /// guard.release().await?;
    /// assert_eq!(sum.run_timeout(Duration::from_millis(1), |_hold| async { 6 * 7 }).await?, Some(42));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_timeout<Work, Running, Output>(&self, timeout: Duration, work: Work) -> Result<Option<Output>>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        match owner.lock_within(self, Wait::AtMost(timeout)).await? {
            Some(held) => owner.run(held, work).await.map(Some),
            None => Ok(None),
        }
    }
}

impl RwLock {
    /// Runs `work` while sharing the lock, as [`Mutex::run`] does.
    ///
    /// Within the work of a [`RwLock::run_read`] or [`RwLock::run_write`] of the same lock of the same keeper it does
    /// not wait.
    pub async fn run_read<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        let held = owner.read(self).await?;
        owner.run(held, work).await
    }

    /// Runs `work` while sharing the lock as [`RwLock::run_read`] does, but waits for it at most for `timeout`; `None`
    /// if the time was up first, and then the work was not begun.
    pub async fn run_read_timeout<Work, Running, Output>(&self, timeout: Duration, work: Work) -> Result<Option<Output>>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        match owner.read_within(self, Wait::AtMost(timeout)).await? {
            Some(held) => owner.run(held, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// Runs `work` while having the lock alone, as [`Mutex::run`] does.
    ///
    /// Within the work of a [`RwLock::run_write`] of the same lock of the same keeper it shares that hold.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldDeadlock`](lockkeeper_core::ErrorKind::WouldDeadlock), permanent and at once, within the work
    /// of a [`RwLock::run_read`] of the same lock that is in no `run_write`.
    pub async fn run_write<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        let held = owner.write(self).await?;
        owner.run(held, work).await
    }

    /// Runs `work` while having the lock alone as [`RwLock::run_write`] does, but waits for it at most for `timeout`;
    /// `None` if the time was up first, and then the work was not begun.
    pub async fn run_write_timeout<Work, Running, Output>(
        &self,
        timeout: Duration,
        work: Work,
    ) -> Result<Option<Output>>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let owner = OwnerKey::of_this_run();
        match owner.write_within(self, Wait::AtMost(timeout)).await? {
            Some(held) => owner.run(held, work).await.map(Some),
            None => Ok(None),
        }
    }
}
