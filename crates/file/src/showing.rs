//! The contents of looks at a lock's directory and at the contenders in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use lockkeeper_core::{Answers, ContenderInfo};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::directory::{self, QueueListing};
use crate::entry_name::EntryName;
use crate::{frozen, request, shared_files};

/// Opens and lists a lock's directory, unless it was removed since we saw its name, is not a queue at all, or is one
/// that we may not look into.
pub(crate) fn listed(path: &Path) -> Result<Option<(OwnedFd, QueueListing)>, Errno> {
    let opened = match shared_files::open_directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        opened => opened?,
    };
    let listing = directory::list(opened.as_fd())?;
    Ok(Some((opened, listing)))
}

/// Describes a contender of an open directory.
pub(crate) fn info(directory: &OwnedFd, name: &EntryName, listing: &QueueListing) -> ContenderInfo {
    let mut info = ContenderInfo::new(name.id(), name.mode);
    info.token = Some(name.token());
    if name.is_frozen {
        info.frozen = Some(frozen::reason(directory, name).unwrap_or_default());
    }
    if listing.is_requested(name) {
        info.revocation = request::read(directory, name.ticket);
    }
    info.ticket = Some(name.ticket);
    info.owner = name.owner();
    info.caller = name.caller();
    info.answers = Answers::of(&info.caller);
    // A pipe is written to only when it leaves or is broken, so its last change is from when it was made. Its time of
    // access is set when it is granted what it asks for, and by nothing else.
    if let Ok(stat) = rustix::fs::statat(directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
        let joined = since_unix(stat.st_mtime, stat.st_mtime_nsec);
        let accessed = since_unix(stat.st_atime, stat.st_atime_nsec).filter(|&accessed| joined < Some(accessed));
        info.since_unix = joined;
        info.granted_unix = accessed.filter(|_| !name.is_frozen);
    }
    info
}

fn since_unix(seconds: i64, nanos: impl TryInto<u32>) -> Option<Duration> {
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos.try_into().ok()?))
}
