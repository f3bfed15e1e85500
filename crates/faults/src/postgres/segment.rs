//! The segment of shared memory that a killed server leaves behind; the kernel has room for some thousand.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::daemon::DATA;

/// The line of `postmaster.pid`, counted from 0, that tells the key and the number of its segment of shared memory.
const SEGMENT_LINE: usize = 6;

/// Removes that of a server whose folder this was, if any.
pub(crate) fn forget(folder: &Path) {
    // A server that ended as it was asked to has removed both.
    let Ok(text) = fs::read_to_string(folder.join(DATA).join("postmaster.pid")) else { return };
    let segment = text.lines().nth(SEGMENT_LINE).and_then(|line| line.split_whitespace().nth(1));
    if let Some(number) = segment {
        let _ = Command::new("ipcrm").args(["--shmem-id", number]).stderr(Stdio::null()).status();
    }
}
