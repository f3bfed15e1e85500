//! The lock of which several may hold a part at a time, for threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::Permit;
use crate::blocking::keeper::User;
use crate::{QueueName, Result};

/// A semaphore: so many permits, and one queue of those who wait for some. Permits belong to no thread.
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
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self) -> Result<Permit> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.acquire().await })?;
        Ok(Permit::new(permit, &self.user))
    }

    /// Takes one permit if one is free and nobody waits; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.try_acquire().await })?;
        Ok(permit.map(|permit| Permit::new(permit, &self.user)))
    }

    /// Waits for one permit, at most for `timeout`; `None` if the time was up first.
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::acquire_timeout`](crate::Semaphore::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        let semaphore = self.semaphore.clone();
        let permit = self.user.call(async move { semaphore.acquire_timeout(timeout).await })?;
        Ok(permit.map(|permit| Permit::new(permit, &self.user)))
    }

    /// Waits for so many permits, granted all at once; each may be given back by itself.
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.acquire_many(permits).await })?;
        Ok(self.permits(granted))
    }

    /// Takes so many permits if they are free and nobody waits; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Vec<Permit>>> {
        let semaphore = self.semaphore.clone();
        let granted = self.user.call(async move { semaphore.try_acquire_many(permits).await })?;
        Ok(granted.map(|granted| self.permits(granted)))
    }

    /// Waits for so many permits, at most for `timeout`; `None` if the time was up first, and then none is held.
    ///
    /// # Errors
    ///
    /// As [`lockkeeper::Semaphore::acquire_many_timeout`](crate::Semaphore::acquire_many_timeout).
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
