//! A number that processes share, stored as Curator's `SharedCount` stores it.

use std::fmt;

use crate::contend::refused;
use crate::{Keeper, SharedValue};
use lockkeeper_core::{QueueName, Result, Value, ValueVersion};

/// A shared 32-bit number that outlives every session.
///
/// Made by [`Keeper::shared_counter`]; cheap to clone. It may bound a semaphore:
/// [`Permits::Counter`](crate::Permits::Counter) takes its name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::Permits;
///
/// # let keeper = lockkeeper::Keeper::memory();
/// let size = keeper.shared_counter("pool-size")?;
/// size.set(1).await?;
/// let pool = keeper.semaphore("pool", Permits::Counter("pool-size".to_owned()))?;
/// let one = pool.acquire().await?;
/// assert!(pool.try_acquire().await?.is_none());
///
/// let seen = size.get().await?;
/// size.compare_and_set(seen, seen.number() + 1).await?.expect("no other client changes it");
/// let two = pool.acquire().await?;
/// # drop((one, two));
/// # Ok(())
/// # }
/// ```
///
/// # Errors, cancellation and order
///
/// All methods are those of [`SharedValue`]. Reading also fails with
/// [`ErrorKind::InvalidRequest`](lockkeeper_core::ErrorKind::InvalidRequest), permanent, if the value of this name is
/// not a counter.
///
/// # Source
///
/// Curator's `SharedCount`: the number is four bytes, the highest first.
#[derive(Clone)]
#[doc(alias = "SharedCount")]
#[doc(alias = "SharedCountReader")]
pub struct SharedCounter {
    value: SharedValue,
}

/// A counter as it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Count {
    number: i32,
    version: Option<ValueVersion>,
}

impl Count {
    /// Returns the number; 0 for a counter that was never set.
    pub const fn number(self) -> i32 {
        self.number
    }

    /// Returns the state that it was read in; `None` for a counter that was never set.
    pub const fn version(self) -> Option<ValueVersion> {
        self.version
    }

    /// Reads a counter from a value. A node for values that was never written may be empty.
    pub(crate) fn read(counter: &QueueName, value: Option<&Value>) -> Result<Self> {
        let number = match value.map(|value| &*value.bytes) {
            None | Some([]) => 0,
            Some(&[a, b, c, d]) => i32::from_be_bytes([a, b, c, d]),
            Some(bytes) => {
                return Err(refused(counter, format!("its value has {} bytes, and a counter has 4", bytes.len())));
            }
        };
        Ok(Self { number, version: value.map(|value| value.version) })
    }
}

impl Keeper {
    /// Returns the shared counter of this name.
    #[doc(alias = "SharedCount")]
    pub fn shared_counter(&self, name: &str) -> Result<SharedCounter> {
        Ok(SharedCounter { value: self.shared_value(name)? })
    }
}

impl SharedCounter {
    /// Returns the counter's name.
    pub fn name(&self) -> &QueueName {
        self.value.name()
    }

    /// Reads the counter.
    #[doc(alias = "getCount")]
    pub async fn get(&self) -> Result<Count> {
        Count::read(self.name(), self.value.get().await?.as_ref())
    }

    /// Sets the counter, without a look at its present value.
    #[doc(alias = "setCount")]
    pub async fn set(&self, number: i32) -> Result<Count> {
        let version = self.value.set(&number.to_be_bytes()).await?;
        Ok(Count { number, version: Some(version) })
    }

    /// Sets the counter if it is still as it was `seen`, and returns the new state; `None` if it is not.
    ///
    /// A counter that was never set is set for the first time in this way: Curator's seed value.
    #[doc(alias = "trySetCount")]
    pub async fn compare_and_set(&self, seen: Count, number: i32) -> Result<Option<Count>> {
        let version = self.value.compare_and_set(seen.version, &number.to_be_bytes()).await?;
        Ok(version.map(|version| Count { number, version: Some(version) }))
    }

    /// Waits until the counter is in another state than `seen`, and reads it.
    #[doc(alias = "SharedCountListener")]
    pub async fn changed(&self, seen: Count) -> Result<Count> {
        Count::read(self.name(), self.value.changed(seen.version).await?.as_ref())
    }
}

impl fmt::Debug for SharedCounter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedCounter").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::paused::service;
    use lockkeeper_core::{Advice, Operation, SafeUntil};

    /// Curator's `testSimple` and `testSeed`.
    #[tokio::test]
    async fn a_counter_that_was_never_set_is_0_and_the_first_to_seed_it_wins() {
        let service = service();
        let (ann, bob) = (service.keeper().shared_counter("c").unwrap(), service.keeper().shared_counter("c").unwrap());
        let unset = ann.get().await.unwrap();
        assert_eq!((unset.number(), unset.version()), (0, None));
        assert!(ann.compare_and_set(unset, 10).await.unwrap().is_some());
        assert!(bob.compare_and_set(unset, 20).await.unwrap().is_none());
        assert_eq!(bob.get().await.unwrap().number(), 10);
        assert_eq!(ann.set(-3).await.unwrap(), bob.get().await.unwrap());
    }

    /// Curator's `testDisconnectReconnectWithMultipleClients`: a missed change is returned after the reconnection, also
    /// under the next session.
    #[tokio::test(start_paused = true)]
    async fn a_waiter_for_a_change_is_told_of_one_made_while_it_was_cut_off() {
        let service = service();
        for expires in [false, true] {
            let (ann, bob) = (service.keeper(), service.keeper());
            let seen = ann.shared_counter("c").unwrap().set(1).await.unwrap();
            let counter = bob.shared_counter("c").unwrap();
            let change = tokio::spawn(async move { counter.changed(seen).await });
            tokio::task::yield_now().await;
            bob.testing().unwrap().cut(SafeUntil::ProcessEnd);
            if expires {
                bob.testing().unwrap().expire_session();
            }
            ann.shared_counter("c").unwrap().set(2).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!change.is_finished());
            bob.testing().unwrap().heal();
            assert_eq!(change.await.unwrap().unwrap().number(), 2);
        }
    }

    #[tokio::test]
    async fn a_write_whose_reply_is_lost_says_that_it_may_have_taken_effect() {
        let keeper = service().keeper();
        let counter = keeper.shared_counter("c").unwrap();
        keeper.testing().unwrap().drop_next_reply(Operation::Value);
        let error = counter.set(7).await.unwrap_err();
        assert_eq!(error.advice(), Advice::Unknown);
        assert_eq!(counter.get().await.unwrap().number(), 7);
    }
}
