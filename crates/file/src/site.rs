//! Where a lock's directory lies, and whether its path still leads there.
//!
//! Renaming or replacing a directory, or one above it, splits a lock: processes that have it open go on in the old one,
//! and new ones meet in the new one. The kernel does not report that a directory above was renamed, so holders and
//! waiters look from time to time. The directory that the path leads to is the lock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use rustix::fs::{AtFlags, CWD, FlockOperation};
use rustix::io::Errno;

use crate::shared_files;

/// How often holders and waiters look whether their directory was replaced: they are to know within a second.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// An open directory of a lock, and the path that led to it.
#[derive(Debug)]
pub(crate) struct Site {
    directory: OwnedFd,
    path: PathBuf,
}

impl Site {
    /// Opens the directory, which must not be a symbolic link.
    ///
    /// For as long as it is open it has a shared flock, which nothing of ours asks for: by that systemd-tmpfiles, which
    /// removes from /tmp and /var/tmp what is older than some days, knows that the directory is in use.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Errno> {
        let directory = shared_files::open_directory(&path)?;
        // Only such a cleaner may have it at this moment, and then it is looking at what is young.
        let _ = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared);
        Ok(Self { directory, path })
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Returns the path that led to it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether the path leads to another directory by now, or to none.
    pub(crate) fn is_replaced(&self) -> bool {
        // If we cannot look, nothing has changed as far as we know.
        !shared_files::leads_to(&self.path, &self.directory).unwrap_or(true)
    }

    /// Waits until a look, the first of them after one interval, shows that the path leads elsewhere.
    pub(crate) async fn replaced(&self, clock: &dyn Clock) {
        loop {
            clock.sleep_until(clock.now().saturating_add(LOOK_INTERVAL)).await;
            if self.is_replaced() {
                return;
            }
        }
    }
}

/// What a path leads to, for a caller that does not have it open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Identity(Option<(u64, u64)>);

impl Identity {
    /// Looks at what is there now, if anything.
    pub(crate) fn of(path: &Path) -> Self {
        Self(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|found| (found.st_dev, found.st_ino)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_open_is_no_prey_of_what_cleans_up_old_files() {
        let directory = tempfile::tempdir().unwrap();
        // As systemd-tmpfiles asks before it looks into a directory.
        let is_free = || {
            let cleaner = shared_files::open_directory(directory.path()).unwrap();
            rustix::fs::flock(&cleaner, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        let sites = [(); 2].map(|()| Site::open(directory.path().to_owned()).unwrap());
        assert!(!is_free());
        drop(sites);
        assert!(is_free());
    }
}
