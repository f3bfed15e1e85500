//! Several locks at once, for threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::engine::{User, granted, this_thread};
use crate::blocking::{MultiGuard, Mutex, RwLock};
use crate::{Result, Wait};

/// One of the locks of a [`MultiLock`], and how it is to be locked.
#[derive(Clone)]
pub struct Member {
    member: crate::Member,
    user: Arc<User>,
}

impl Member {
    /// Asks for a share of this lock.
    pub fn read(rw_lock: RwLock) -> Self {
        let (rw_lock, user) = rw_lock.parts();
        Self { member: crate::Member::read(rw_lock), user }
    }

    /// Asks for this lock alone.
    pub fn write(rw_lock: RwLock) -> Self {
        let (rw_lock, user) = rw_lock.parts();
        Self { member: crate::Member::write(rw_lock), user }
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Self {
        let (mutex, user) = mutex.parts();
        Self { member: mutex.into(), user }
    }
}

/// Several locks, of one service or of many, that are taken all together or not at all.
///
/// They are taken in one order, however they are listed here. Those that the thread already holds count.
/// Errors: see [the module](crate::blocking#errors).
///
/// ```
/// # fn main() -> Result<(), lockkeeper::Error> {
/// # let keeper = lockkeeper::blocking::connect("memory:")?;
/// use lockkeeper::blocking::MultiLock;
///
/// let transfer = MultiLock::new([keeper.mutex("account-7")?, keeper.mutex("account-3")?])?;
/// let guard = transfer.lock()?;
/// assert!(guard.is_held());
/// guard.release()
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "InterProcessMultiLock")]
pub struct MultiLock {
    locks: crate::MultiLock,
    /// The users of all members: at least one.
    users: Vec<Arc<User>>,
}

impl MultiLock {
    /// Puts these locks together. This costs nothing.
    ///
    /// # Errors
    ///
    /// Those of [`lockkeeper::MultiLock::new`](crate::MultiLock::new).
    pub fn new<M: Into<Member>>(members: impl IntoIterator<Item = M>) -> Result<Self> {
        let members = members.into_iter().map(|member| {
            let Member { member, user } = member.into();
            (member, user)
        });
        let (members, users): (Vec<_>, _) = members.unzip();
        Ok(Self { locks: crate::MultiLock::new(members)?, users })
    }

    /// Waits until all locks are taken, however long it takes.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Result<MultiGuard> {
        self.lock_within(Wait::Forever).map(granted)
    }

    /// Takes all locks if each is free or this thread's; `None` otherwise, and then it holds no more than before.
    pub fn try_lock(&self) -> Result<Option<MultiGuard>> {
        self.lock_within(Wait::No)
    }

    /// Waits until all locks are taken, at most for `timeout` in all; `None` if the time was over first, and then it
    /// holds no more than before.
    #[doc(alias = "acquire")]
    pub fn lock_timeout(&self, timeout: Duration) -> Result<Option<MultiGuard>> {
        self.lock_within(Wait::AtMost(timeout))
    }

    /// Waits until all locks are taken, for as long as `wait` says in all; `None` if the time was over first, and then
    /// it holds no more than before.
    pub fn lock_within(&self, wait: Wait) -> Result<Option<MultiGuard>> {
        let (thread, locks) = (this_thread(), self.locks.clone());
        let held = self.users[0].call(async move { thread.lock_all_within(&locks, wait).await })?;
        Ok(held.map(|held| MultiGuard::new(held, self.users.clone())))
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member.fmt(formatter)
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.locks.fmt(formatter)
    }
}
