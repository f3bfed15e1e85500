//! A number that processes share, stored as Curator's `SharedCount` stores it.

use std::fmt;

use lockkeeper_core::{QueueName, Result};

use crate::count::{Count, stored};
use crate::keeper::Keeper;
use crate::shared_value::SharedValue;

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
/// Curator's `SharedCount`: the number is four bytes, the highest first. Other clients write theirs as text, such as
/// kazoo's `Counter`: four bytes of such a text are not read as a number. The few numbers whose bytes look like one,
/// all of them beyond 700 million, have a fifth byte, which Curator does not read.
#[derive(Clone)]
#[doc(alias = "SharedCount")]
#[doc(alias = "SharedCountReader")]
pub struct SharedCounter {
    value: SharedValue,
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
        let version = self.value.set(&stored(number)).await?;
        Ok(Count::new(number, version))
    }

    /// Sets the counter if it is still as it was `seen`, and returns the new state; `None` if it is not.
    ///
    /// A counter that was never set is set for the first time in this way: Curator's seed value.
    #[doc(alias = "trySetCount")]
    pub async fn compare_and_set(&self, seen: Count, number: i32) -> Result<Option<Count>> {
        let version = self.value.compare_and_set(seen.version(), &stored(number)).await?;
        Ok(version.map(|version| Count::new(number, version)))
    }

    /// Waits until the counter is in another state than `seen`, and reads it.
    #[doc(alias = "SharedCountListener")]
    pub async fn changed(&self, seen: Count) -> Result<Count> {
        Count::read(self.name(), self.value.changed(seen.version()).await?.as_ref())
    }
}

impl fmt::Debug for SharedCounter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedCounter").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Advice, ErrorKind, Operation};

    use crate::tests::service;

    #[tokio::test]
    async fn a_counter_that_another_client_wrote_as_text_is_refused_and_ours_with_the_same_bytes_is_read() {
        let keeper = service().keeper();
        let (counter, value) = (keeper.shared_counter("c").unwrap(), keeper.shared_value("c").unwrap());
        for text in ["7", "12", "1234", "-123", "1.50", "1e10", "12345", "123\n"] {
            value.set(text.as_bytes()).await.unwrap();
            let error = counter.get().await.expect_err(text);
            assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{text}");
            assert!(error.to_string().contains("the text of a number"), "{error}");
            let number = text.as_bytes().try_into().map(i32::from_be_bytes);
            for number in [Some(0), Some(-1), number.ok()].into_iter().flatten() {
                counter.set(number).await.unwrap();
                let seen = counter.get().await.unwrap();
                assert_eq!(seen.number(), number);
                let set = counter.compare_and_set(seen, number).await.unwrap().expect("it is as it was");
                assert_eq!(counter.get().await.unwrap(), set);
                assert_eq!(value.get().await.unwrap().expect("a value").bytes[..4], number.to_be_bytes());
            }
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
