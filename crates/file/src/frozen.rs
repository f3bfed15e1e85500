//! Contenders that outlive every process: a regular file in the queue, where others have a pipe.
//!
//! Its name says that it is one, so it need not be opened to know that it stands. Its content is the reason and a line
//! end. An empty one was broken, and only its name is left to be removed.

use std::os::fd::{AsFd, OwnedFd};

use lockkeeper_core::{Error, ErrorKind, Lifetime, Operation, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::{ContenderState, QueueDirectory};
use crate::entry_name::EntryName;
use crate::shared_files::{self, FileDurability};

/// The longest reason, in bytes: it is a sentence for the waiters.
const REASON_BYTES_MAX: usize = 4096;

/// Refuses a reason that is too long.
pub(crate) fn check(lifetime: &Lifetime) -> Result<()> {
    match lifetime {
        Lifetime::Persistent { reason } if reason.len() > REASON_BYTES_MAX => {
            let message = format!("the reason has {} bytes, and may have {REASON_BYTES_MAX}", reason.len());
            Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message))
        }
        _ => Ok(()),
    }
}

/// Makes the file, and puts its content on the disk; under the queue's lock.
pub(crate) fn enter(within: &QueueDirectory, name: &EntryName, reason: &str) -> Result<OwnedFd, Errno> {
    let content = format!("{reason}\n");
    shared_files::replace(within.directory(), name.as_str(), content.as_bytes(), within.access(), FileDurability::Disk)
}

/// Reads the reason; `None` if it cannot be read.
pub(crate) fn reason(directory: impl AsFd, name: &EntryName) -> Option<String> {
    let content = shared_files::read(directory, name.as_str(), REASON_BYTES_MAX + 1).ok()??;
    let text = String::from_utf8_lossy(&content);
    Some(text.strip_suffix('\n').unwrap_or(&text).replace(char::is_control, "\u{FFFD}"))
}

/// Looks at one; `None` if it is gone.
pub(crate) fn look_at(directory: impl AsFd, name: &EntryName) -> Result<Option<ContenderState>, Errno> {
    match rustix::fs::statat(directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if stat.st_size == 0 => Ok(Some(ContenderState::Broken)),
        Ok(_) => Ok(Some(ContenderState::Alive)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Marks one as broken, so that a process that has it open can tell why its name goes.
pub(crate) fn mark_broken(directory: impl AsFd, name: &EntryName) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, name.as_str(), flags, Mode::empty()).map(drop)
}

/// Tells whether one that we have open was broken.
pub(crate) fn is_broken(file: impl AsFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_size == 0)
}
