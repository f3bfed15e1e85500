//! Where a lock's directory lies, and whether its path still leads there.
//!
//! Renaming or replacing a directory, or one above it, splits a lock: processes that have it open go on in the old one,
//! and new ones meet in the new one. The kernel does not report that a directory above was renamed, so holders and
//! waiters look from time to time. The directory that the path leads to is the lock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use rustix::fs::{AtFlags, CWD};
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
    pub(crate) fn open(path: PathBuf) -> Result<Self, Errno> {
        shared_files::open_directory(&path).map(|directory| Self { directory, path })
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
