//! Barriers for threads.

use std::fmt;
use std::sync::Arc;

use crate::blocking::engine::{User, granted};
use crate::{Hold, QueueName, Result, Wait, barrier};

/// A barrier: while it is set, waiters at it wait; when it is removed, all go on.
///
/// Made by [`Keeper::barrier`](crate::blocking::Keeper::barrier); cheap to clone. Errors: see [the
/// module](crate::blocking#errors).
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// use lockkeeper::Wait;
///
/// let migration = keeper.barrier("migration")?;
/// migration.set()?;
/// assert!(migration.wait_within(Wait::No)?.is_none());
/// migration.remove()?;
/// migration.wait()
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "DistributedBarrier")]
pub struct Barrier {
    barrier: barrier::Barrier,
    user: Arc<User>,
}

impl Barrier {
    pub(super) const fn new(barrier: barrier::Barrier, user: Arc<User>) -> Self {
        Self { barrier, user }
    }

    /// Returns the barrier's name.
    pub fn name(&self) -> &QueueName {
        self.barrier.name()
    }

    /// Sets the barrier; it stays as it is if it is set already.
    #[doc(alias = "setBarrier")]
    pub fn set(&self) -> Result<()> {
        let barrier = self.barrier.clone();
        self.user.call(async move { barrier.set().await })
    }

    /// Removes the barrier, if it is set, and lets all waiters go on.
    #[doc(alias = "removeBarrier")]
    pub fn remove(&self) -> Result<()> {
        let barrier = self.barrier.clone();
        self.user.call(async move { barrier.remove().await })
    }

    /// Waits until the barrier is not set, however long it takes.
    #[doc(alias = "waitOnBarrier")]
    pub fn wait(&self) -> Result<()> {
        self.wait_within(Wait::Forever).map(granted)
    }

    /// Waits until the barrier is not set, for as long as `wait` says; `None` if the time was over first.
    #[doc(alias = "waitOnBarrier")]
    pub fn wait_within(&self, wait: Wait) -> Result<Option<()>> {
        let barrier = self.barrier.clone();
        self.user.call(async move { barrier.wait_within(wait).await })
    }
}

/// A double barrier: members go in when the given number of them have come, and out when all of them have left.
///
/// Made by [`Keeper::double_barrier`](crate::blocking::Keeper::double_barrier); cheap to clone. Errors: see [the
/// module](crate::blocking#errors).
#[derive(Clone)]
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    barrier: barrier::DoubleBarrier,
    user: Arc<User>,
}

impl DoubleBarrier {
    pub(super) const fn new(barrier: barrier::DoubleBarrier, user: Arc<User>) -> Self {
        Self { barrier, user }
    }

    /// Returns the barrier's name.
    pub fn name(&self) -> &QueueName {
        self.barrier.name()
    }

    /// Waits until enough members have come, however long it takes, and goes in with them.
    pub fn enter(&self) -> Result<Entered> {
        self.enter_within(Wait::Forever).map(granted)
    }

    /// Waits until enough members have come, for as long as `wait` says, and goes in with them; `None` if the time was
    /// over first, and then it does not count as a member that has come.
    pub fn enter_within(&self, wait: Wait) -> Result<Option<Entered>> {
        let barrier = self.barrier.clone();
        let entered = self.user.call(async move { barrier.enter_within(wait).await })?;
        Ok(entered.map(|entered| Entered { entered, user: self.user.clone() }))
    }
}

/// Proof of being inside a double barrier; dropping it leaves, without waiting for the others.
#[must_use = "the barrier is left when this is dropped"]
pub struct Entered {
    /// Dropped before the user, so that no session ends before its place is left.
    entered: barrier::Entered,
    user: Arc<User>,
}

impl Entered {
    /// Returns the hold of the place inside.
    pub fn hold(&self) -> &Hold {
        self.entered.hold()
    }

    /// Leaves, and waits until all others of the round have left, however long it takes.
    pub fn leave(self) -> Result<()> {
        self.leave_within(Wait::Forever).map(granted)
    }

    /// Leaves, and waits until all others of the round have left, for as long as `wait` says; `None` if the time was
    /// over first.
    pub fn leave_within(self, wait: Wait) -> Result<Option<()>> {
        let Self { entered, user } = self;
        user.call(async move { entered.leave_within(wait).await })
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.barrier.fmt(formatter)
    }
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.barrier.fmt(formatter)
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entered.fmt(formatter)
    }
}
