//! Looks at the directory of locks and at a lock's own, for operators and observers: who may lock there, what a restart
//! leaves, and the contenders. Nothing is changed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use lockkeeper_core::{Answers, ContenderInfo, Finding, Operation, Result, Severity};
use rustix::fs::{Access, AtFlags, CWD, Mode};
use rustix::io::Errno;

use crate::base::Base;
use crate::directory::{self, DirectoryListing};
use crate::entry_name::EntryName;
use crate::errors::{ANOTHER_DIRECTORY, failed};
use crate::shared_files::since_unix;
use crate::{filesystem, frozen, request, shared_files};

pub(crate) fn examine(base: &Base) -> Result<Vec<Finding>> {
    let path = &base.path;
    let fail = |what| move |errno| failed(Operation::Inspect, what, path, errno);
    let mut findings = Vec::new();
    for directory in [path, &base.queues] {
        if !may_write(directory).map_err(fail("look for the rights to"))? {
            findings.push(not_writable(directory));
            break;
        }
    }
    let found = match rustix::fs::stat(path) {
        Err(Errno::NOENT) => {
            findings.push(Finding::note(format!("{} is not there yet: the first lock makes it", path.display())));
            return Ok(findings);
        }
        found => found.map_err(fail("look at"))?,
    };
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.contains(Mode::WOTH) {
        findings.push(writable_by_all(path));
    }
    if filesystem::is_in_memory(path).map_err(fail("tell the file system of"))? {
        findings.push(in_memory(path));
    }
    Ok(findings)
}

/// Tells whether this user may make and remove entries; also if there is no such directory yet.
fn may_write(directory: &Path) -> Result<bool, Errno> {
    match rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn not_writable(directory: &Path) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("this user may not write {}, so it sees locks and can take none", directory.display()),
        format!("give a group of this user the right (chmod g+w), or {ANOTHER_DIRECTORY}"),
    )
}

fn writable_by_all(directory: &Path) -> Finding {
    Finding::new(
        Severity::Note,
        format!("all users of this machine take part in the locks of {}", directory.display()),
        "if that is not meant, give it to the group of those who should (chgrp, chmod g+w,o-w)",
    )
}

fn in_memory(directory: &Path) -> Finding {
    Finding::new(
        Severity::Note,
        format!("{} lies in memory, so values and frozen locks end with the machine", directory.display()),
        "name a directory on a local disk with LOCKKEEPER_DIR or --connect file:DIR",
    )
}

/// Opens and lists a lock's directory, unless it was removed since we saw its name, is not a queue at all, or is one
/// that we may not look into.
pub(crate) fn listed(path: &Path) -> Result<Option<(OwnedFd, DirectoryListing)>, Errno> {
    let opened = match shared_files::open_directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        opened => opened?,
    };
    let listing = directory::list(opened.as_fd())?;
    Ok(Some((opened, listing)))
}

/// Describes a contender of an open directory.
pub(crate) fn info(directory: &OwnedFd, name: &EntryName, listing: &DirectoryListing) -> ContenderInfo {
    let mut info = named(name);
    if name.is_frozen {
        info.frozen = Some(frozen::reason(directory, name).unwrap_or_default());
    }
    if listing.is_requested(name) {
        info.revocation = request::read(directory, name.ticket);
    }
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

/// Describes a contender by its name alone.
pub(crate) fn named(name: &EntryName) -> ContenderInfo {
    let mut info = ContenderInfo::new(name.id(), name.mode);
    info.token = Some(name.token());
    info.ticket = Some(name.ticket);
    info.owner = name.owner();
    info.caller = name.caller();
    info.answers = Answers::of(&info.caller);
    info
}
