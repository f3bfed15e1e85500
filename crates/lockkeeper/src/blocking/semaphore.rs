//! The lock of which several threads may hold a part at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::Permit;
use crate::blocking::keeper::User;
use crate::{QueueName, Result};

/// A semaphore: a number of permits, and one queue of those that wait for some. Permits belong to no thread.
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
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.acquire().await })?;
        Ok(Permit::new(permit, &self.user))
    }

    /// Takes one permit if one is free and no contender waits; `None` otherwise.
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.try_acquire().await })?;
        Ok(permit.map(|permit| Permit::new(permit, &self.user)))
    }

    /// Waits for one permit, at most for `timeout`; `None` if the time was over first.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.acquire_timeout(timeout).await })?;
        Ok(permit.map(|permit| Permit::new(permit, &self.user)))
    }

    /// Waits for this many permits, granted all at once; each may be given back by itself.
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.acquire_many(permits).await })?;
        Ok(self.permits(granted))
    }

    /// Takes this many permits if they are free and no contender waits; `None` otherwise.
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.try_acquire_many(permits).await })?;
        Ok(granted.map(|granted| self.permits(granted)))
    }

    /// Waits for this many permits, at most for `timeout`; `None` if the time was over first, and then none is held.
    pub fn acquire_many_timeout(&self, permits: u32, timeout: Duration) -> Result<Option<Vec<Permit>>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.acquire_many_timeout(permits, timeout).await })?;
        Ok(granted.map(|granted| self.permits(granted)))
    }

    fn permits(&self, granted: Vec<crate::Permit>) -> Vec<Permit> {
        granted.into_iter().map(|permit| Permit::new(permit, &self.user)).collect()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.fmt(formatter)
    }
}
