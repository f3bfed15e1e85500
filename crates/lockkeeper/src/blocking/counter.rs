//! Counters and values for threads.

use std::fmt;
use std::sync::Arc;

use crate::blocking::engine::User;
use crate::counter::{self, Count, Value, ValueVersion};
use crate::{QueueName, Result};

/// A whole number that all clients of a service share.
///
/// Made by [`Keeper::shared_counter`](crate::blocking::Keeper::shared_counter); cheap to clone. Errors: see [the
/// module](crate::blocking#errors).
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// let builds = keeper.shared_counter("builds")?;
/// let seen = builds.get()?;
/// if let Some(next) = builds.compare_and_set(seen, seen.number() + 1)? {
///     assert_eq!(next.number(), 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "SharedCount")]
pub struct SharedCounter {
    counter: counter::SharedCounter,
    user: Arc<User>,
}

impl SharedCounter {
    pub(super) const fn new(counter: counter::SharedCounter, user: Arc<User>) -> Self {
        Self { counter, user }
    }

    /// Returns the counter's name.
    pub fn name(&self) -> &QueueName {
        self.counter.name()
    }

    /// Reads the number.
    pub fn get(&self) -> Result<Count> {
        let counter = self.counter.clone();
        self.user.call(async move { counter.get().await })
    }

    /// Writes the number, without a comparison.
    pub fn set(&self, number: i32) -> Result<Count> {
        let counter = self.counter.clone();
        self.user.call(async move { counter.set(number).await })
    }

    /// Writes the number if it is still as it was seen; `None` if it is not.
    #[doc(alias = "trySetCount")]
    pub fn compare_and_set(&self, seen: Count, number: i32) -> Result<Option<Count>> {
        let counter = self.counter.clone();
        self.user.call(async move { counter.compare_and_set(seen, number).await })
    }

    /// Waits until the number was written since it was seen, and reads it.
    pub fn changed(&self, seen: Count) -> Result<Count> {
        let counter = self.counter.clone();
        self.user.call(async move { counter.changed(seen).await })
    }
}

/// One small value that all clients of a service share.
///
/// Made by [`Keeper::shared_value`](crate::blocking::Keeper::shared_value); cheap to clone. Errors: see [the
/// module](crate::blocking#errors).
#[derive(Clone)]
pub struct SharedValue {
    value: counter::SharedValue,
    user: Arc<User>,
}

impl SharedValue {
    pub(super) const fn new(value: counter::SharedValue, user: Arc<User>) -> Self {
        Self { value, user }
    }

    /// Returns the value's name.
    pub fn name(&self) -> &QueueName {
        self.value.name()
    }

    /// Reads the value; `None` if there is none.
    pub fn get(&self) -> Result<Option<Value>> {
        let value = self.value.clone();
        self.user.call(async move { value.get().await })
    }

    /// Writes the value, without a comparison; at most [`VALUE_BYTES_MAX`](crate::counter::VALUE_BYTES_MAX) bytes.
    pub fn set(&self, bytes: &[u8]) -> Result<ValueVersion> {
        let (value, bytes) = (self.value.clone(), bytes.to_vec());
        self.user.call(async move { value.set(&bytes).await })
    }

    /// Writes the value if it is still in the state that was seen, `None` for no value; `None` if it is not.
    #[doc(alias = "trySetValue")]
    pub fn compare_and_set(&self, seen: Option<ValueVersion>, bytes: &[u8]) -> Result<Option<ValueVersion>> {
        let (value, bytes) = (self.value.clone(), bytes.to_vec());
        self.user.call(async move { value.compare_and_set(seen, &bytes).await })
    }

    /// Removes the value, if there is one.
    pub fn remove(&self) -> Result<()> {
        let value = self.value.clone();
        self.user.call(async move { value.remove().await })
    }

    /// Waits until the value is in another state than was seen, and reads it.
    pub fn changed(&self, seen: Option<ValueVersion>) -> Result<Option<Value>> {
        let value = self.value.clone();
        self.user.call(async move { value.changed(seen).await })
    }
}

impl fmt::Debug for SharedCounter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counter.fmt(formatter)
    }
}

impl fmt::Debug for SharedValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}
