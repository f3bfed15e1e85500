//! Removing what is not needed any more: dead contenders, the directories of locks without a contender, and what was
//! being prepared in these by processes that died.
//!
//! The last to leave a lock removes its directory. A killed process cannot; then the next process that uses the lock
//! does. For a name that is never used again, it is a process that saw the death ([`end_place`]) or that tidies all
//! locks. All of it happens under the lock's flock, which an entry takes too, and no process waits for it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use crate::directory::ContenderState;
use crate::directory::{Locked, QueueDirectory};
use crate::entry_name::EntryName;
use crate::pipe::{Looker, path_of};
use crate::shared_files::Patience;

/// How often a reaper looks again at a lock that emptied while it looked.
const REAPS_MAX: u32 = 16;

/// What the kernel puts behind the path of an open file that has no name any more.
const DELETED: &str = " (deleted)";

/// What a reaper found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reaped {
    Removed,
    Inhabited,
    /// No contender stands there, but a value is to stay.
    Valued,
}

/// Ends the place of a process that is dead: closes the [lifeline](crate::lifeline) that kept it,
/// and removes what the process could not remove, including the lock's directory if no other contender stands there.
///
/// It does not wait for other processes. What cannot be removed now does no harm, and stays for the next process that
/// uses the lock or tidies all locks.
pub fn end_place(lifeline: OwnedFd) {
    let target = rustix::fs::readlink(path_of(&lifeline), Vec::new());
    // From here on the place is free, and the next in line is granted the lock.
    drop(lifeline);
    let Ok(target) = target else { return };
    let Ok(path) = target.to_str() else { return };
    let path = Path::new(path.strip_suffix(DELETED).unwrap_or(path));
    let is_contender =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| EntryName::parse(name).is_some());
    if let Some(directory) = path.parent().filter(|_| is_contender) {
        sweep(&Looker::default(), directory);
    }
}

/// Removes what dead contenders have left in the directory of a lock, and the directory if no contender stands in it.
pub(crate) fn sweep(looker: &Looker, path: &Path) {
    match QueueDirectory::open_existing(path) {
        Ok(directory) => reap(looker, directory),
        Err(errno) if is_gone_or_closed(errno) => {}
        Err(errno) => not_reaped(path, errno),
    }
}

/// Whether a directory is gone, or not ours to tidy.
const fn is_gone_or_closed(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::ROFS)
}

/// Removes the dead contenders, and the directory if no living one stands in it.
pub(crate) fn reap(looker: &Looker, mut directory: QueueDirectory) {
    for _ in 0..REAPS_MAX {
        match directory.lock(Patience::Now) {
            Ok(Locked::Ours) => {}
            // The holder of the flock is entering, and reaps in the end; or is reaping, and looks again.
            Ok(Locked::Busy | Locked::Removed) => return,
            Err(errno) => return not_reaped(directory.site().path(), errno),
        }
        let outcome = reap_locked(looker, &directory);
        directory.unlock();
        match outcome {
            Ok(Reaped::Removed | Reaped::Valued) => return,
            // A contender that left while we had the lock could not reap; so we do.
            Ok(Reaped::Inhabited) if directory.list().is_ok_and(|listing| listing.contenders.is_empty()) => {}
            Ok(Reaped::Inhabited) => return,
            Err(errno) => return not_reaped(directory.site().path(), errno),
        }
    }
}

fn reap_locked(looker: &Looker, directory: &QueueDirectory) -> Result<Reaped, Errno> {
    let mut listing = directory.list()?;
    let mut living = Vec::new();
    for name in std::mem::take(&mut listing.contenders) {
        match looker.look_at(directory.directory(), &name)? {
            Some(ContenderState::Alive) => living.push(name),
            Some(ContenderState::Dead | ContenderState::Left | ContenderState::Broken) => {
                directory.remove(name.as_str())?;
            }
            None => {}
        }
    }
    listing.contenders = living;
    directory.tidy(&listing);
    if !listing.contenders.is_empty() {
        return Ok(Reaped::Inhabited);
    }
    if listing.has_lasting_value {
        return Ok(Reaped::Valued);
    }
    directory.remove_all(directory.site().path())?;
    Ok(Reaped::Removed)
}

fn not_reaped(path: &Path, errno: Errno) {
    tracing::debug!(path = %path.display(), %errno, "could not remove the empty directory of a lock");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use rustix::fs::CWD;

    use super::*;
    use crate::shared_files;

    #[test]
    fn only_a_contender_s_lifeline_ends_a_place_and_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        end_place(fs::File::open(&file).unwrap().into());
        end_place(std::io::pipe().unwrap().1.into());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "it is not a lock's directory");

        let queue = directory.path().join("q");
        fs::create_dir(&queue).unwrap();
        let name = queue.join(format!("{:020}-{:032x}-mutex-1-h-c", 1, 7));
        rustix::fs::mkfifoat(CWD, &name, rustix::fs::Mode::RWXU).unwrap();
        let lifeline = rustix::fs::open(&name, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).unwrap();
        let opened = shared_files::open_directory(&queue).unwrap();
        assert_eq!(crate::directory::list(opened.as_fd()).unwrap().contenders.len(), 1);
        end_place(lifeline);
        assert!(!queue.exists());
    }
}
