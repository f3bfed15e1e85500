//! A way that is closed for all until a client opens it.

use std::fmt;

use lockkeeper_core::{QueueName, Result, Value, Wait};

use crate::contend::{ValueSays, grant};
use crate::keeper::Keeper;
use crate::lock::granted;
use crate::shared_value::SharedValue;

/// A barrier: while it is set, waiters at it wait; when it is removed, all go on.
///
/// It outlives every session: the client that sets it must see to its removal. Made by [`Keeper::barrier`]; cheap to
/// clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use std::time::Duration;
///
/// use lockkeeper::Wait;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let migration = keeper.barrier("migration")?;
/// migration.set().await?;
/// assert!(migration.wait_within(Wait::AtMost(Duration::from_millis(1))).await?.is_none());
/// migration.remove().await?;
/// migration.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors and cancellation
///
/// Setting and removing fail as [`SharedValue::compare_and_set`] and [`SharedValue::remove`] do, and are harmless to
/// repeat. A wait is that of [`SharedValue::changed`].
///
/// # Source
///
/// Curator's `DistributedBarrier`: the barrier is set while its value exists.
#[derive(Clone)]
#[doc(alias = "DistributedBarrier")]
pub struct Barrier {
    value: SharedValue,
}

impl Keeper {
    /// Returns the barrier of this name.
    #[doc(alias = "DistributedBarrier")]
    pub fn barrier(&self, name: &str) -> Result<Barrier> {
        Ok(Barrier { value: self.shared_value(name)? })
    }
}

impl Barrier {
    /// Returns the barrier's name.
    pub fn name(&self) -> &QueueName {
        self.value.name()
    }

    /// Sets the barrier; changes nothing if it is set. Callers that come to the barrier after this has returned wait.
    #[doc(alias = "setBarrier")]
    pub async fn set(&self) -> Result<()> {
        // Only its presence counts; its text is for operators. So a value that is set is left alone.
        let owner = self.value.lock().shared.owner.to_string();
        self.value.compare_and_set(None, owner.as_bytes()).await.map(drop)
    }

    /// Removes the barrier, and all waiters go on; does nothing if it is not set. Callers that come to the barrier
    /// after this has returned go on.
    #[doc(alias = "removeBarrier")]
    pub async fn remove(&self) -> Result<()> {
        self.value.remove().await
    }

    /// Waits until the barrier is not set; does not wait if it is not.
    ///
    /// The barrier was not set at some moment between the call and its answer. If it is removed and set again at once,
    /// waiters may keep waiting.
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait(&self) -> Result<()> {
        self.wait_within(Wait::Forever).await.map(granted)
    }

    /// Waits until the barrier is not set, for as long as `wait` says; `None` if the time was up first. The time is up
    /// also while the connection is lost.
    ///
    /// # Errors
    ///
    /// Those of [`Barrier::wait`]; and a transient one if the time was up before it was known whether the barrier is
    /// set.
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait_within(&self, wait: Wait) -> Result<Option<()>> {
        let read = |value: Option<Value>| value.is_none().then_some(());
        let mut removed = ValueSays { queue: self.name(), read };
        grant(&self.value.lock().shared, self.name(), &mut removed, wait, None).await
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Barrier").field(self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{ErrorKind, SafeUntil};

    use crate::tests::{AT_ONCE, service};

    /// Curator's `testServerCrash`: the barrier is there after the outage, and the waiter too.
    #[tokio::test(start_paused = true)]
    async fn a_barrier_outlives_its_setter_s_session_and_its_waiters_outlive_theirs() {
        let service = service();
        let setter = service.keeper();
        setter.barrier("b").unwrap().set().await.unwrap();
        setter.close().await.unwrap();
        let keeper = service.keeper();
        let barrier = keeper.barrier("b").unwrap();
        let waiter = tokio::spawn(async move { barrier.wait().await });
        tokio::task::yield_now().await;
        keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
        keeper.testing().unwrap().expire_session();
        tokio::time::sleep(Duration::from_secs(30)).await;
        keeper.testing().unwrap().heal();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!waiter.is_finished());
        service.keeper().barrier("b").unwrap().remove().await.unwrap();
        tokio::time::timeout(AT_ONCE, waiter).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_whose_keeper_is_closed_is_told() {
        let keeper = service().keeper();
        let barrier = keeper.barrier("b").unwrap();
        barrier.set().await.unwrap();
        let waiter = tokio::spawn(async move { barrier.wait().await });
        tokio::task::yield_now().await;
        keeper.close().await.unwrap();
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
}
