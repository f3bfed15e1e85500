//! A small value that processes share: read, written, compared and set, watched.

pub(crate) mod barrier;
pub(crate) mod counter;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{Expected, Modes, QueueName, Result, Session, Value, ValueVersion, Wait};

use crate::contend::{ValueSays, grant, onlooker_error};
use crate::keeper::Keeper;
use crate::lock::{Lock, granted};

/// A value of at most [`VALUE_BYTES_MAX`](lockkeeper_core::VALUE_BYTES_MAX) bytes that outlives every session.
///
/// Made by [`Keeper::shared_value`]; cheap to clone. [`SharedCounter`](crate::SharedCounter) is one that holds a
/// number.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::Keeper::memory();
/// let motto = keeper.shared_value("motto")?;
/// assert_eq!(motto.get().await?, None);
/// let first = motto.compare_and_set(None, b"slow").await?.expect("no other client writes it");
/// motto.set(b"slow and steady").await?;
/// assert!(motto.compare_and_set(Some(first), b"fast").await?.is_none());
/// # Ok(())
/// # }
/// ```
///
/// # All methods
///
/// - Errors: transient if the service cannot be reached now, as after a connection loss; permanent if it refuses, or
///   cannot keep values. A write that may have taken effect fails with the advice
///   [`Unknown`](lockkeeper_core::Advice::Unknown). [`SharedValue::changed`] returns permanent errors only: other
///   failures are retried under the keeper's retry policy.
/// - Cancellation: dropping the future of a read or of a wait changes nothing. A write may take effect all the same.
/// - Order: a read shows the last write, of any client, that was acknowledged before the call, or a later state.
#[derive(Clone)]
#[doc(alias = "SharedValueReader")]
pub struct SharedValue {
    lock: Lock,
}

impl Keeper {
    /// Returns the shared value of this name.
    pub fn shared_value(&self, name: &str) -> Result<SharedValue> {
        Ok(SharedValue { lock: self.lock(name, Modes::NONE)? })
    }
}

impl SharedValue {
    pub(crate) const fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Returns the value's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Reads the value; `None` if there is none.
    pub async fn get(&self) -> Result<Option<Value>> {
        let value = self.session().await?.values().get(self.name());
        value.await.map_err(|error| onlooker_error(self.name(), error))
    }

    /// Writes the value, without a look at the present one, and returns its new state. Of two writers at once the later
    /// one's value stays.
    ///
    /// # Errors
    ///
    /// [`LimitReached`](lockkeeper_core::ErrorKind::LimitReached), permanent, if the value is too long; so it is for
    /// [`SharedValue::compare_and_set`].
    #[doc(alias = "setValue")]
    pub async fn set(&self, value: &[u8]) -> Result<ValueVersion> {
        self.write(Expected::Any, Some(value)).await.map(granted)
    }

    /// Writes the value if it is still in the state `seen`, where `None` means no value; returns `None` if it is not.
    /// Of writers that have seen the same state one succeeds.
    #[doc(alias = "trySetValue")]
    pub async fn compare_and_set(&self, seen: Option<ValueVersion>, value: &[u8]) -> Result<Option<ValueVersion>> {
        self.write(seen.map_or(Expected::Absent, Expected::Version), Some(value)).await
    }

    /// Removes the value; does nothing if there is none.
    pub async fn remove(&self) -> Result<()> {
        self.write(Expected::Any, None).await.map(drop)
    }

    /// Waits until the value is in another state than `seen`, where `None` means no value, and reads it.
    ///
    /// Returns at once if it is in another state already. Of several changes in a row only the last may be returned.
    /// After a connection loss it goes on waiting, under a new session if need be; a change made meanwhile is returned.
    #[doc(alias = "addListener")]
    pub async fn changed(&self, seen: Option<ValueVersion>) -> Result<Option<Value>> {
        let read = |value: Option<Value>| (value.as_ref().map(|value| value.version) != seen).then_some(value);
        let mut change = ValueSays { queue: self.name(), read };
        grant(&self.lock.shared, self.name(), &mut change, Wait::Forever, None).await.map(granted)
    }

    async fn write(&self, expected: Expected, value: Option<&[u8]>) -> Result<Option<ValueVersion>> {
        let written = self.session().await?.values().set(self.name(), expected, value.map(Arc::from));
        written.await.map_err(|error| onlooker_error(self.name(), error))
    }

    async fn session(&self) -> Result<Arc<dyn Session>> {
        self.lock.shared.session().await.map_err(|error| onlooker_error(self.name(), error))
    }
}

impl fmt::Debug for SharedValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedValue").field(&self.lock).finish()
    }
}
