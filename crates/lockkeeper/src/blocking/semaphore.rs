//! The lock of which several threads may hold a part at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::Permit;
use crate::blocking::engine::{User, granted};
use crate::{QueueName, Result, Wait};

/// A semaphore: a number of permits, and one queue of waiters for them. Permits belong to no thread.
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// let connections = keeper.semaphore("connections", 2)?;
/// let permits = connections.acquire_many(2)?;
/// assert!(connections.try_acquire()?.is_none());
/// std::thread::spawn(move || drop(permits)).join().unwrap();
/// assert!(connections.try_acquire()?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// Made by [`Keeper::semaphore`](crate::blocking::Keeper::semaphore); cheap to clone.
///
/// Errors: see [the module](crate::blocking#errors).
#[derive(Clone)]
#[doc(alias = "InterProcessSemaphoreV2")]
#[doc(alias = "InterProcessSemaphoreMutex")]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    user: Arc<User>,
}

impl Semaphore {
    pub(super) const fn new(semaphore: crate::Semaphore, user: Arc<User>) -> Self {
        Self { semaphore, user }
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &QueueName {
        self.semaphore.name()
    }

    /// Waits for one permit, however long it takes.
    pub fn acquire(&self) -> Result<Permit> {
        self.acquire_within(Wait::Forever).map(granted)
    }

    /// Takes one permit if one is free and no contender waits; `None` otherwise.
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        self.acquire_within(Wait::No)
    }

    /// Waits for one permit, at most for `timeout`; `None` if the time was over first.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_within(Wait::AtMost(timeout))
    }

    /// Waits for one permit, for as long as `wait` says; `None` if the time was over first.
    pub fn acquire_within(&self, wait: Wait) -> Result<Option<Permit>> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.acquire_within(wait).await })?;
        Ok(permit.map(|permit| Permit::new(permit, &self.user)))
    }

    /// Waits for this many permits, granted all at once; each may be given back separately.
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>> {
        self.acquire_many_within(permits, Wait::Forever).map(granted)
    }

    /// Waits for this many permits, for as long as `wait` says; `None` if the time was over first, and then none is
    /// held.
    pub fn acquire_many_within(&self, permits: u32, wait: Wait) -> Result<Option<Vec<Permit>>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.acquire_many_within(permits, wait).await })?;
        Ok(granted.map(|granted| granted.into_iter().map(|permit| Permit::new(permit, &self.user)).collect()))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.fmt(formatter)
    }
}
