//! Where a lock's directory lies, and whether its path still leads there.
//!
//! Renaming or replacing a directory, or one above it, splits a lock: processes that have it open go on in the old one,
//! and new ones meet in the new one. The kernel does not report that a directory above was renamed, so holders and
//! waiters look from time to time, by one task for each tokio runtime. The directory that the path leads to is the
//! lock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, FlockOperation};
use rustix::io::Errno;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::shared_files;

/// How often holders and waiters look whether their directory was replaced: they are to know within a second.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// An open directory of a lock, and the path that led to it.
#[derive(Debug)]
pub(crate) struct BaseSite {
    directory: OwnedFd,
    path: PathBuf,
    lookouts: Mutex<PerRuntime<SiteLookout>>,
}

/// One task that looks now and then for all who wait in its runtime, for as long as one of them has this.
#[derive(Debug)]
struct SiteLookout {
    /// Whether the path leads elsewhere.
    found: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for SiteLookout {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl BaseSite {
    /// Opens the directory, which must not be a symbolic link.
    ///
    /// For as long as it is open it has a shared flock, which nothing of ours asks for: by that systemd-tmpfiles, which
    /// removes from /tmp and /var/tmp what is older than some days, knows that the directory is in use.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Errno> {
        let directory = shared_files::open_directory(&path)?;
        // Only such a cleaner may have it at this moment, and then it is looking at what is young.
        let _ = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared);
        Ok(Self { directory, path, lookouts: Mutex::default() })
    }

    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether the path leads to another directory by now, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        // If we cannot look, nothing has changed as far as we know.
        !shared_files::leads_to(&self.path, &self.directory).unwrap_or(true)
    }

    /// Waits until a look shows that the path leads elsewhere. All who wait in one runtime share one that looks at each
    /// interval: the first look of the first of them comes after one, that of another within one.
    pub(crate) async fn replaced(self: &Arc<Self>, clock: &Arc<dyn Clock>) {
        let lookout = self.lookout(clock);
        if lookout.found.clone().wait_for(|found| *found).await.is_err() {
            // The runtime is ending, and this future with it.
            std::future::pending::<()>().await;
        }
    }

    fn lookout(self: &Arc<Self>, clock: &Arc<dyn Clock>) -> Arc<SiteLookout> {
        let mut lookouts = self.lookouts.lock();
        // One that has found something says no more; by now the path may lead back.
        if let Some(lookout) = lookouts.here().filter(|lookout| !*lookout.found.borrow()) {
            return lookout;
        }
        let (sender, found) = watch::channel(false);
        let task = tokio::spawn(look_out(Arc::downgrade(self), clock.clone(), sender)).abort_handle();
        let lookout = Arc::new(SiteLookout { found, task });
        lookouts.set_here(&lookout);
        lookout
    }
}

/// Looks at each interval, until the path leads elsewhere.
async fn look_out(site: Weak<BaseSite>, clock: Arc<dyn Clock>, found: watch::Sender<bool>) {
    loop {
        clock.sleep_until(clock.now().saturating_add(LOOK_INTERVAL)).await;
        let Some(site) = site.upgrade() else { return };
        if site.is_replaced() {
            found.send_replace(true);
            return;
        }
    }
}

/// What a path leads to, for a caller that does not have it open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PathIdentity(Option<(u64, u64)>);

impl PathIdentity {
    /// Looks at what is there now, if anything.
    pub(crate) fn of(path: &Path) -> Self {
        Self(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|found| (found.st_dev, found.st_ino)))
    }
}

/// What each runtime has one of, for as long as a user in it keeps it.
#[derive(Debug)]
pub(crate) struct PerRuntime<T>(Vec<(Id, Weak<T>)>);

impl<T> PerRuntime<T> {
    /// Returns that of this runtime, if it has one.
    pub(crate) fn here(&mut self) -> Option<Arc<T>> {
        self.0.retain(|(_, one)| one.strong_count() > 0);
        let here = Handle::current().id();
        self.0.iter().find(|(id, _)| *id == here).and_then(|(_, one)| one.upgrade())
    }

    /// Makes this the one of this runtime.
    pub(crate) fn set_here(&mut self, one: &Arc<T>) {
        let here = Handle::current().id();
        self.0.retain(|(id, _)| *id != here);
        self.0.push((here, Arc::downgrade(one)));
    }
}

impl<T> Default for PerRuntime<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lockkeeper_core::BoxFuture;
    use lockkeeper_core::clock::{BootInstant, TestClock};

    use super::*;

    #[derive(Debug)]
    struct CountingClock(TestClock, AtomicUsize);

    impl Clock for CountingClock {
        fn now(&self) -> BootInstant {
            self.0.now()
        }

        fn sleep_until(&self, deadline: BootInstant) -> BoxFuture<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.sleep_until(deadline)
        }

        fn unix_time(&self) -> Duration {
            self.0.unix_time()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_looks_for_all_who_wait_and_only_while_there_are_any() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("q");
        std::fs::create_dir(&path).unwrap();
        let site = Arc::new(BaseSite::open(path.clone()).unwrap());
        let counting = Arc::new(CountingClock(TestClock::new(), AtomicUsize::new(0)));
        let clock: Arc<dyn Clock> = counting.clone();
        let wait = || {
            let (site, clock) = (site.clone(), clock.clone());
            async move { site.replaced(&clock).await }
        };
        let waiters: Vec<_> = (0..1_000).map(|_| tokio::spawn(wait())).collect();
        tokio::time::sleep(10 * LOOK_INTERVAL).await;
        assert!((10..=12).contains(&counting.1.load(Ordering::Relaxed)), "{:?}", counting.1);
        let replaced_at = clock.now();
        std::fs::rename(&path, above.path().join("old")).unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert!(clock.now().saturating_duration_since(replaced_at) <= LOOK_INTERVAL);
        // The path leads back: who waits now is not told by what was found before.
        std::fs::rename(above.path().join("old"), &path).unwrap();
        assert!(tokio::time::timeout(3 * LOOK_INTERVAL, wait()).await.is_err());
        let slept = counting.1.load(Ordering::Relaxed);
        tokio::time::sleep(10 * LOOK_INTERVAL).await;
        assert_eq!(counting.1.load(Ordering::Relaxed), slept, "none waits, and none looks");
    }

    #[test]
    fn a_directory_that_is_open_is_no_prey_of_what_cleans_up_old_files() {
        let directory = tempfile::tempdir().unwrap();
        // As systemd-tmpfiles asks before it looks into a directory.
        let is_free = || {
            let cleaner = shared_files::open_directory(directory.path()).unwrap();
            rustix::fs::flock(&cleaner, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        let sites = [(); 2].map(|()| BaseSite::open(directory.path().to_owned()).unwrap());
        assert!(!is_free());
        drop(sites);
        assert!(is_free());
    }

    #[test]
    fn each_runtime_has_the_one_that_was_set_last_for_as_long_as_it_is_kept() {
        let [first, second] =
            [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"));
        let mut ones = PerRuntime::default();
        let [old, new, other] = ["old", "new", "other"].map(Arc::new);
        first.block_on(async {
            ones.set_here(&old);
            ones.set_here(&new);
        });
        assert_eq!(second.block_on(async { ones.here() }), None);
        second.block_on(async { ones.set_here(&other) });
        drop(old);
        assert_eq!(first.block_on(async { ones.here() }), Some(new));
        assert_eq!(first.block_on(async { ones.here() }), None, "nothing keeps it");
        assert_eq!(second.block_on(async { ones.here() }), Some(other));
    }
}
