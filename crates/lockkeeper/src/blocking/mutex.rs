//! The exclusive lock, for threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::engine::{User, granted, this_thread};
use crate::blocking::{Guard, MutexGuard};
use crate::{Hold, QueueName, Result, Wait};

/// An exclusive lock with one queue: first come, first served, across all processes that use the service.
///
/// The thread that locks it may lock it again. Made by [`Keeper::mutex`](crate::blocking::Keeper::mutex); cheap to
/// clone.
///
/// Errors: see [the module](crate::blocking#errors).
#[derive(Clone)]
#[doc(alias = "InterProcessMutex")]
pub struct Mutex {
    mutex: crate::Mutex,
    user: Arc<User>,
}

impl Mutex {
    pub(super) const fn new(mutex: crate::Mutex, user: Arc<User>) -> Self {
        Self { mutex, user }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        self.mutex.name()
    }

    /// Tells whether this keeper, or a clone of it, holds this mutex now, on any thread; costs no request.
    #[doc(alias = "isAcquiredInThisProcess")]
    pub fn is_held_here(&self) -> bool {
        self.mutex.is_held_here()
    }

    /// Waits for the lock, however long it takes; returns at once if this thread has it.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Result<MutexGuard> {
        self.lock_within(Wait::Forever).map(granted)
    }

    /// Takes the lock if this thread has it or it is free; `None` if another contender holds it or waits for it.
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> Result<Option<MutexGuard>> {
        self.lock_within(Wait::No)
    }

    /// Waits for the lock, at most for `timeout`; `None` if the time was over first.
    #[doc(alias = "acquire")]
    pub fn lock_timeout(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        self.lock_within(Wait::AtMost(timeout))
    }

    /// Waits for the lock, for as long as `wait` says; `None` if the time was over first.
    pub fn lock_within(&self, wait: Wait) -> Result<Option<MutexGuard>> {
        let (thread, mutex) = (this_thread(), self.mutex.clone());
        let held = self.user.call(async move { thread.lock_within(&mutex, wait).await })?;
        Ok(held.map(|held| Guard::new(held, &self.user)))
    }

    /// Runs `work` under the lock. The work is not stopped if the lock is lost: where that matters, it must ask the
    /// hold.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`]; and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before the work
    /// was done.
    pub fn run<Output>(&self, work: impl FnOnce(&Hold) -> Output) -> Result<Output> {
        self.lock()?.run(work)
    }

    /// Runs `work` under the lock as [`Mutex::run`] does, but waits for the lock at most for `timeout`; `None` if the
    /// time was over first, and then the work was not begun.
    pub fn run_timeout<Output>(&self, timeout: Duration, work: impl FnOnce(&Hold) -> Output) -> Result<Option<Output>> {
        self.lock_timeout(timeout)?.map(|guard| guard.run(work)).transpose()
    }

    pub(super) fn parts(self) -> (crate::Mutex, Arc<User>) {
        (self.mutex, self.user)
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutex.fmt(formatter)
    }
}
