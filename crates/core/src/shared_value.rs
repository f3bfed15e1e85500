//! A small value that processes share: read, written, compared and set, watched.

use std::fmt;
use std::sync::Arc;

use crate::contend::{Patience, ValueSays, grant_by, onlooker_error};
use crate::contender::{Expected, Value, ValueVersion};
use crate::lock::{Lock, granted};
use crate::{Keeper, QueueName, Result, Session};

/// A value of at most [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) bytes that outlives every session.
///
/// Made by [`Keeper::shared_value`]; cheap to clone. [`SharedCounter`](crate::SharedCounter) is one that holds a
/// number.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// # let keeper = lockkeeper_core::Keeper::memory();
/// let motto = keeper.shared_value("motto")?;
/// assert_eq!(motto.get().await?, None);
/// let first = motto.compare_and_set(None, b"slow").await?.expect("nobody else writes it");
/// motto.set(b"slow and steady").await?;
/// assert!(motto.compare_and_set(Some(first), b"fast").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "SharedValueReader")]
pub struct SharedValue {
    lock: Lock,
}

impl Keeper {
    /// Returns the shared value of this name. Asking costs nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName) if it is no name.
    pub fn shared_value(&self, name: &str) -> Result<SharedValue> {
        Ok(SharedValue { lock: self.lock(name)? })
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
    ///
    /// # Errors
    ///
    /// Transient if the service cannot be reached now; permanent if it refuses, or cannot keep values.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows what was acknowledged to anybody before the call, or something later.
    ///
    /// # On connection loss
    ///
    /// Fails.
    pub async fn get(&self) -> Result<Option<Value>> {
        let value = self.session().await?.value(self.name());
        value.await.map_err(|error| onlooker_error(self.name(), error))
    }

    /// Writes the value, whatever it was, and returns its new state.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::get`]; of advice [`Unknown`](crate::Advice::Unknown) if it may have taken effect; permanent,
    /// of kind [`LimitReached`](crate::ErrorKind::LimitReached), if the value is too long.
    ///
    /// # Cancellation
    ///
    /// It may take effect all the same.
    ///
    /// # Ordering
    ///
    /// Of two writers at once the later one's value stays.
    ///
    /// # On connection loss
    ///
    /// Fails.
    #[doc(alias = "setValue")]
    pub async fn set(&self, value: &[u8]) -> Result<ValueVersion> {
        self.write(Expected::Any, Some(value)).await.map(granted)
    }

    /// Writes the value if it is still in the state `seen`, `None` being its absence; `None` if it is not.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::set`].
    ///
    /// # Cancellation
    ///
    /// It may take effect all the same.
    ///
    /// # Ordering
    ///
    /// Of writers that have seen the same state one succeeds.
    ///
    /// # On connection loss
    ///
    /// Fails.
    #[doc(alias = "trySetValue")]
    pub async fn compare_and_set(&self, seen: Option<ValueVersion>, value: &[u8]) -> Result<Option<ValueVersion>> {
        self.write(seen.map_or(Expected::Absent, Expected::Version), Some(value)).await
    }

    /// Removes the value; does nothing if there is none.
    ///
    /// # Errors
    ///
    /// As [`SharedValue::set`].
    ///
    /// # Cancellation
    ///
    /// It may take effect all the same.
    ///
    /// # Ordering
    ///
    /// As [`SharedValue::set`].
    ///
    /// # On connection loss
    ///
    /// Fails.
    pub async fn remove(&self) -> Result<()> {
        self.write(Expected::Any, None).await.map(drop)
    }

    /// Waits until the value is in another state than `seen`, `None` being its absence, and reads it.
    ///
    /// # Errors
    ///
    /// Permanent ones; what may pass is tried again under the keeper's retry policy.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Returns at once if it is in another state already. Of several changes in a row only the last may be told.
    ///
    /// # On connection loss
    ///
    /// Goes on waiting, under a new session if need be; a change made meanwhile is told.
    #[doc(alias = "addListener")]
    pub async fn changed(&self, seen: Option<ValueVersion>) -> Result<Option<Value>> {
        let read = |value: Option<Value>| (value.as_ref().map(|value| value.version) != seen).then_some(value);
        let change = ValueSays { queue: self.name(), read };
        grant_by(&self.lock.shared, &change, Patience::Endless).await.map(granted)
    }

    async fn write(&self, expected: Expected, value: Option<&[u8]>) -> Result<Option<ValueVersion>> {
        let written = self.session().await?.set_value(self.name(), expected, value.map(Arc::from));
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
