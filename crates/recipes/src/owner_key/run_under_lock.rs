//! Work under a lock of any kind, for as long as it is held.
//!
//! Each `run` of a mutex or a read/write lock locks as an owner that nested ones share, so this room lies above the
//! locks and the owners. How the owners of nested closures are found is `owner_key`'s. Permits and leads have no owner.

use std::time::Duration;

use lockkeeper_core::{Result, Wait};

use crate::election::Election;
use crate::hold::Hold;
use crate::lock::guard::{Guard, run_under};
use crate::mutex::Mutex;
use crate::owner_key::OwnerKey;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::shared::call;

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

impl Semaphore {
    /// Runs `work` with one permit, and drops it at its next await if the permit is lost. The permit is given back
    /// after the work is done or dropped; dropping the future drops the work.
    ///
    /// Permits have no owner: a `run` of the same semaphore within `work` waits for another permit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let conversions = keeper.semaphore("conversions", 3)?;
    /// let pages = conversions.run(|_hold| async { 12 }).await?;
    /// assert_eq!(pages, 12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::acquire`]; [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) if the permit was lost
    /// before the work was done, also if the work did not notice.
    pub async fn run<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        run_holding(self.acquire().await?, work).await
    }
}

impl Election {
    /// Campaigns, runs `work` while this process leads, and drops it at its next await if the lead is lost. It resigns
    /// after the work is done or dropped; dropping the future drops the work, or ends the candidacy.
    ///
    /// It leads once. [`LeaderSelector`](crate::LeaderSelector) does so again and again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
    /// let moved = keeper.election("migration")?.run(|hold| async move { hold.is_held() }).await?;
    /// assert!(moved);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Election::campaign`]; [`ErrorKind::Lost`](lockkeeper_core::ErrorKind::Lost) if the lead was lost
    /// before the work was done, also if the work did not notice.
    pub async fn run<Work, Running, Output>(&self, work: Work) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        run_holding(self.campaign().await?, work).await
    }
}

/// Runs `work` under what no owner has, and gives it back. What the work waits for is nested in it.
async fn run_holding<Kind, Work, Running, Output>(guard: Guard<Kind>, work: Work) -> Result<Output>
where
    Work: FnOnce(Hold) -> Running,
    Running: Future<Output = Output>,
{
    let hold = guard.hold().clone();
    call::nested(hold.ticket(), run_under(hold, work, move || guard.release())).await
}

#[cfg(test)]
mod tests {
    use std::future;

    use lockkeeper_core::{ErrorKind, LossReason};

    use super::*;
    use crate::tests::service;

    #[tokio::test(start_paused = true)]
    async fn work_with_a_permit_or_a_lead_gives_it_back_when_it_is_done_or_dropped() {
        let keeper = service().keeper();
        let (pool, chair) = (keeper.semaphore("pool", 1).unwrap(), keeper.election("chair").unwrap());
        let in_use = pool.run(|hold| {
            let (pool, chair) = (pool.clone(), chair.clone());
            async move {
                let leads = chair.run(|lead| async move { lead.is_held() }).await.unwrap();
                leads && hold.is_held() && pool.try_acquire().await.unwrap().is_none()
            }
        });
        assert!(in_use.await.unwrap());
        let second = Duration::from_secs(1);
        tokio::time::timeout(second, pool.run(|_| future::pending::<()>())).await.unwrap_err();
        tokio::time::timeout(second, chair.run(|_| future::pending::<()>())).await.unwrap_err();
        assert!(pool.acquire_timeout(second).await.unwrap().is_some());
        assert!(chair.campaign_within(Wait::AtMost(second)).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_when_its_permit_or_its_lead_is_lost() {
        let keeper = service().keeper();
        let (pool, chair) = (keeper.semaphore("pool", 1).unwrap(), keeper.election("chair").unwrap());
        let lose = |_| {
            keeper.testing().expect("it is in memory").expire_session();
            future::pending::<()>()
        };
        let errors = [pool.run(lose).await.unwrap_err(), chair.run(lose).await.unwrap_err()];
        assert_eq!(errors.map(|error| error.kind()), [ErrorKind::Lost(LossReason::Expired); 2]);
    }
}
