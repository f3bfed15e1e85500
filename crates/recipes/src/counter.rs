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
    use lockkeeper_core::{Advice, Operation};

    use crate::paused::service;

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
