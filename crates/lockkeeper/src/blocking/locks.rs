//! The exclusive lock, and the lock that readers share and a writer has alone, for threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::engine::{User, granted, this_thread};
use crate::blocking::{Guard, MutexGuard, ReadGuard, WriteGuard};
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

/// A lock with one queue for readers and writers: first come, first served between them.
///
/// A thread that reads may read again, also while a writer waits. A thread that writes may write and read again; to
/// share what it wrote without a gap, it reads and then gives up writing:
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// let catalogue = keeper.rw_lock("catalogue")?;
/// let write = catalogue.write()?;
/// let read = catalogue.read()?;
/// write.release()?; // no writer comes in between
/// read.release()
/// # }
/// ```
///
/// Made by [`Keeper::rw_lock`](crate::blocking::Keeper::rw_lock); cheap to clone.
///
/// Errors: see [the module](crate::blocking#errors).
#[derive(Clone)]
#[doc(alias = "InterProcessReadWriteLock")]
pub struct RwLock {
    rw_lock: crate::RwLock,
    user: Arc<User>,
}

impl RwLock {
    pub(super) const fn new(rw_lock: crate::RwLock, user: Arc<User>) -> Self {
        Self { rw_lock, user }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        self.rw_lock.name()
    }

    /// Waits for a share of the lock, however long it takes; returns at once if this thread has a share or writes.
    #[doc(alias = "readLock")]
    pub fn read(&self) -> Result<ReadGuard> {
        self.read_within(Wait::Forever).map(granted)
    }

    /// Takes a share of the lock if this thread has one or writes, or no writer has the lock or waits for it; `None`
    /// otherwise.
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.read_within(Wait::No)
    }

    /// Waits for a share of the lock, at most for `timeout`; `None` if the time was over first.
    pub fn read_timeout(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        self.read_within(Wait::AtMost(timeout))
    }

    /// Waits for a share of the lock, for as long as `wait` says; `None` if the time was over first.
    pub fn read_within(&self, wait: Wait) -> Result<Option<ReadGuard>> {
        let (thread, rw_lock) = (this_thread(), self.rw_lock.clone());
        let held = self.user.call(async move { thread.read_within(&rw_lock, wait).await })?;
        Ok(held.map(|held| Guard::new(held, &self.user)))
    }

    /// Waits to have the lock alone, however long it takes; returns at once if this thread has it alone.
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> Result<WriteGuard> {
        self.write_within(Wait::Forever).map(granted)
    }

    /// Takes the lock alone if this thread has it alone, or it is free; `None` otherwise.
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.write_within(Wait::No)
    }

    /// Waits to have the lock alone, at most for `timeout`; `None` if the time was over first.
    pub fn write_timeout(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        self.write_within(Wait::AtMost(timeout))
    }

    /// Waits to have the lock alone, for as long as `wait` says; `None` if the time was over first.
    pub fn write_within(&self, wait: Wait) -> Result<Option<WriteGuard>> {
        let (thread, rw_lock) = (this_thread(), self.rw_lock.clone());
        let held = self.user.call(async move { thread.write_within(&rw_lock, wait).await })?;
        Ok(held.map(|held| Guard::new(held, &self.user)))
    }

    /// Runs `work` while sharing the lock. The work is not stopped if the share is lost: where that matters, it must
    /// ask the hold.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::read`]; and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the share was lost before the work
    /// was done.
    pub fn run_read<Output>(&self, work: impl FnOnce(&Hold) -> Output) -> Result<Output> {
        self.read()?.run(work)
    }

    /// Runs `work` while sharing the lock as [`RwLock::run_read`] does, but waits for it at most for `timeout`; `None`
    /// if the time was over first, and then the work was not begun.
    pub fn run_read_timeout<Output>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&Hold) -> Output,
    ) -> Result<Option<Output>> {
        self.read_timeout(timeout)?.map(|guard| guard.run(work)).transpose()
    }

    /// Runs `work` while having the lock alone. The work is not stopped if the lock is lost: where that matters, it
    /// must ask the hold.
    ///
    /// # Errors
    ///
    /// Those of [`RwLock::write`]; and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before the work
    /// was done.
    pub fn run_write<Output>(&self, work: impl FnOnce(&Hold) -> Output) -> Result<Output> {
        self.write()?.run(work)
    }

    /// Runs `work` while having the lock alone as [`RwLock::run_write`] does, but waits for it at most for `timeout`;
    /// `None` if the time was over first, and then the work was not begun.
    pub fn run_write_timeout<Output>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&Hold) -> Output,
    ) -> Result<Option<Output>> {
        self.write_timeout(timeout)?.map(|guard| guard.run(work)).transpose()
    }

    pub(super) fn parts(self) -> (crate::RwLock, Arc<User>) {
        (self.rw_lock, self.user)
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rw_lock.fmt(formatter)
    }
}
