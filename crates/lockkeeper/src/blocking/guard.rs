//! Proofs of holding, for threads.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use lockkeeper_recipes::kind;

use crate::blocking::engine::User;
use crate::{FencingToken, Hold, Reentrant, Result};

/// Proof that this thread holds a lock; `Kind` says which. One of several, if the thread locked it more than once.
///
/// Dropping the thread's last one gives the lock back in the background; [`Guard::release`] does the same, waits and
/// reports. It stays on its thread. The [`Hold`] says whether the lock is still held.
///
/// ```compile_fail,E0277
/// let keeper = lockkeeper::blocking::connect("memory:").unwrap();
/// let guard = keeper.mutex("nightly-backup").unwrap().lock().unwrap();
/// std::thread::spawn(move || drop(guard)); // does not compile: the guard stays on its thread
/// ```
#[must_use = "the lock is given back when its last guard is dropped"]
pub struct Guard<Kind> {
    /// Dropped before the user, so that the session does not end before the lock is given back.
    held: Reentrant<crate::Guard<Kind>>,
    user: Arc<User>,
    stays: StaysOnItsThread,
}

/// Cannot be sent to another thread, but shared with it.
type StaysOnItsThread = PhantomData<std::sync::MutexGuard<'static, ()>>;

/// Proof that this thread holds a mutex.
#[doc(alias = "InterProcessMutex")]
pub type MutexGuard = Guard<kind::Mutex>;

/// Proof that this thread shares a read/write lock with other readers.
#[doc(alias = "ReadLock")]
pub type ReadGuard = Guard<kind::Read>;

/// Proof that this thread holds a read/write lock alone.
#[doc(alias = "WriteLock")]
pub type WriteGuard = Guard<kind::Write>;

impl<Kind: 'static> Guard<Kind> {
    pub(super) fn new(held: Reentrant<crate::Guard<Kind>>, user: &Arc<User>) -> Self {
        Self { held, user: user.clone(), stays: PhantomData }
    }

    /// Returns the hold; a cheap clone that may go anywhere and never releases.
    pub fn hold(&self) -> &Hold {
        self.held.hold()
    }

    /// Returns the grant's token, which is the same for all of the thread's guards on this hold.
    pub fn fencing_token(&self) -> FencingToken {
        self.held.fencing_token()
    }

    /// Gives up this guard; if it is the thread's last one, gives the lock back and waits until that is certain. Its
    /// errors are those of [`Reentrant::release`].
    pub fn release(self) -> Result<()> {
        let Self { held, user, stays: PhantomData } = self;
        user.call(held.release())
    }

    /// Runs `work`, and then gives up this guard.
    pub(super) fn run<Output>(self, work: impl FnOnce(&Hold) -> Output) -> Result<Output> {
        let output = work(self.hold());
        match self.release() {
            Err(error) if matches!(error.kind(), crate::ErrorKind::Lost(_)) => Err(error),
            // The work is done and the release goes on by itself.
            Ok(()) | Err(_) => Ok(output),
        }
    }
}

/// Proof of holding one permit of a semaphore; any thread may release it.
///
/// Dropping it gives the permit back in the background; [`Permit::release`] does the same, waits and reports.
#[doc(alias = "Lease")]
#[must_use = "the permit is given back when it is dropped"]
pub struct Permit {
    /// Dropped before the user, so that the session does not end before the permit is given back.
    permit: crate::Permit,
    user: Arc<User>,
}

impl Permit {
    pub(super) fn new(permit: crate::Permit, user: &Arc<User>) -> Self {
        Self { permit, user: user.clone() }
    }

    /// Returns the hold of this permit; a cheap clone that may go anywhere and never releases.
    pub fn hold(&self) -> &Hold {
        self.permit.hold()
    }

    /// Returns the grant's token.
    pub fn fencing_token(&self) -> FencingToken {
        self.permit.fencing_token()
    }

    /// Gives the permit back and waits until that is certain. Its errors are those of
    /// [`lockkeeper::Guard::release`](crate::Guard::release).
    pub fn release(self) -> Result<()> {
        let Self { permit, user } = self;
        user.call(permit.release())
    }
}

/// Proof that this thread holds all locks of a [`MultiLock`](crate::blocking::MultiLock).
///
/// Dropping it gives them all back in the background, in the reverse of the order in which they were taken;
/// [`MultiGuard::release`] does the same, waits and reports. It stays on its thread.
#[must_use = "the locks are given back when the guard is dropped"]
pub struct MultiGuard {
    /// Dropped before the users, so that no session ends before its lock is given back.
    held: crate::MultiGuard,
    users: Vec<Arc<User>>,
    stays: StaysOnItsThread,
}

impl MultiGuard {
    /// Takes the users of all members; there is at least one.
    pub(super) fn new(held: crate::MultiGuard, users: Vec<Arc<User>>) -> Self {
        Self { held, users, stays: PhantomData }
    }

    /// Returns the hold of each lock, in the order of the multi-lock: by service and name.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.held.holds()
    }

    /// Tells whether all locks are held now. Once it has returned `false`, it never returns `true` again.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Gives all locks back and waits until that is certain. One that fails does not keep the others. Its errors are
    /// those of [`lockkeeper::MultiGuard::release`](crate::MultiGuard::release).
    pub fn release(self) -> Result<()> {
        let Self { held, users, stays: PhantomData } = self;
        users[0].call(held.release())
    }
}

impl<Kind> fmt::Debug for Guard<Kind> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.fmt(formatter)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.permit.fmt(formatter)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.fmt(formatter)
    }
}
