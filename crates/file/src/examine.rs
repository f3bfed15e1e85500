//! Examination of a directory of locks: who may lock there, and what a restart leaves. Nothing is changed.

use std::path::Path;

use lockkeeper_core::{Finding, Operation, Result, Severity};
use rustix::fs::{Access, AtFlags, CWD, Mode};
use rustix::io::Errno;

use crate::base::Base;
use crate::errors::{ANOTHER_DIRECTORY, failed};
use crate::filesystem;

/// Examines a base directory.
pub(crate) fn examine(base: &Base) -> Result<Vec<Finding>> {
    let path = base.path();
    let fail = |what| move |errno| failed(Operation::Inspect, what, path, errno);
    let mut findings = Vec::new();
    for directory in [path, base.queues()] {
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
