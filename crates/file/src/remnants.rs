//! Remnants of processes in the directory, for an operator: contenders that are dead, and the directories of locks that
//! no client uses. Each is removed under its lock's flock after a second look, so no process that enters loses its
//! place.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::{Operation, QueueName, Remnant, RemnantKind, Result};
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::directory::{ContenderState, Locked, QueueDirectory, is_ours};
use crate::entry_name::EntryName;
use crate::errors::failed;
use crate::pipe::Looker;
use crate::shared_files::{Patience, since_unix};
use crate::tidying::reap;

#[derive(Clone, Debug)]
enum SeenRemnant {
    Dead { directory: PathBuf, name: EntryName },
    Empty { directory: PathBuf, state: DirectoryState },
}

/// The state of a directory: another one of the same name has another number, and what comes or goes changes the time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct DirectoryState {
    identity: (u64, u64),
    changed_unix: Option<Duration>,
}

impl DirectoryState {
    fn of(stat: &Stat) -> Self {
        let changed_unix = since_unix(stat.st_mtime, stat.st_mtime_nsec);
        Self { identity: (stat.st_dev, stat.st_ino), changed_unix }
    }

    /// For how long nothing has come or gone, at a time since 1970.
    fn unused_for(&self, now_unix: Duration) -> Duration {
        now_unix.saturating_sub(self.changed_unix.unwrap_or_default())
    }
}

/// Describes a dead contender.
pub(crate) fn dead(lock: Option<QueueName>, directory: &Path, name: &EntryName) -> Remnant {
    let place = directory.join(name.as_str()).to_string_lossy().into_owned();
    let seen = SeenRemnant::Dead { directory: directory.to_owned(), name: name.clone() };
    Remnant::new(RemnantKind::Dead, place, seen).of_lock(lock)
}

/// Describes the empty directory of a lock, if it has been unused for so long.
pub(crate) fn empty(
    lock: Option<QueueName>,
    directory: &Path,
    now_unix: Duration,
    unused_for: Duration,
) -> Result<Option<Remnant>, Errno> {
    let state = match rustix::fs::lstat(directory) {
        Err(Errno::NOENT) => return Ok(None),
        stat => DirectoryState::of(&stat?),
    };
    if state.unused_for(now_unix) < unused_for || has_others(directory) {
        return Ok(None);
    }
    let seen = SeenRemnant::Empty { directory: directory.to_owned(), state };
    Ok(Some(Remnant::new(RemnantKind::Empty, directory.to_string_lossy(), seen).of_lock(lock)))
}

/// Tells whether something lies in a directory that no process of ours has made, so that it may be no lock's at all.
fn has_others(directory: &Path) -> bool {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| !is_ours(&name.to_string_lossy()))
}

/// Removes a remnant; `false` if it is not as it was seen any more.
pub(crate) fn remove(looker: &Looker, remnant: &Remnant) -> Result<bool> {
    let Some(seen) = remnant.seen::<SeenRemnant>() else {
        return Ok(false);
    };
    let (SeenRemnant::Dead { directory: path, .. } | SeenRemnant::Empty { directory: path, .. }) = seen;
    match removed(looker, seen, path) {
        // It is gone, or another one has its place: clients come and go meanwhile.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
        removed => removed.map_err(|errno| failed(Operation::Configure, "remove what was left in", path, errno)),
    }
}

fn removed(looker: &Looker, seen: &SeenRemnant, path: &Path) -> Result<bool, Errno> {
    let mut directory = QueueDirectory::open_existing(path)?;
    match directory.lock(Patience::Now)? {
        Locked::Ours => {}
        // A process enters right now, or removes it.
        Locked::Busy | Locked::Removed => return Ok(false),
    }
    let removed = removed_locked(looker, seen, &directory);
    directory.unlock();
    // A contender that left while we had the lock could not remove the directory; so we do.
    if directory.list().is_ok_and(|listing| listing.contenders.is_empty()) {
        reap(looker, directory);
    }
    removed
}

fn removed_locked(looker: &Looker, seen: &SeenRemnant, directory: &QueueDirectory) -> Result<bool, Errno> {
    match seen {
        SeenRemnant::Dead { name, .. } => match looker.look_at(directory.directory(), name)? {
            Some(ContenderState::Dead | ContenderState::Left | ContenderState::Broken) => {
                directory.remove(name.as_str())?;
            }
            Some(ContenderState::Alive) | None => return Ok(false),
        },
        SeenRemnant::Empty { state, .. }
            if DirectoryState::of(&rustix::fs::fstat(directory.directory())?) == *state => {}
        SeenRemnant::Empty { .. } => return Ok(false),
    }
    // The last to leave a lock removes its directory, and here that was a dead one.
    let listing = directory.list()?;
    let is_empty = listing.contenders.is_empty() && !listing.has_lasting_value;
    if is_empty {
        directory.tidy(&listing);
        directory.remove_all(directory.site().path())?;
    }
    Ok(is_empty || matches!(seen, SeenRemnant::Dead { .. }))
}
