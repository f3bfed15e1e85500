//! The locks that are followed, as they were seen last, and looks at them. How holders end, `held` knows.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::{ContenderInfo, LockSnapshot, Part, QueueName, Scope};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use crate::base::Base;
use crate::contender_state::ContenderState;
use crate::directory;
use crate::ending::EndingContender;
use crate::entry_name::EntryName;
use crate::errors::errno_of;
use crate::follow::held::HolderPipes;
use crate::follow::watch_table::Due;
use crate::pipe::Looker;
use crate::showing::{info, listed};

/// How many pipes are watched for their end at a time, beside those that a process may open anyway.
const ENDINGS_MAX: usize = 256;

/// All locks that are followed and have a directory.
#[derive(Debug)]
pub(super) struct FollowedLocks {
    base: Arc<Base>,
    looker: Arc<Looker>,
    scope: Scope,
    /// By the names of their directories.
    locks: BTreeMap<String, FollowedLock>,
    /// Contenders that may be about to end, each with its lock.
    endings: Vec<(String, EndingContender)>,
    held: HolderPipes,
}

#[derive(Debug)]
struct FollowedLock {
    name: QueueName,
    seen: Vec<ContenderInfo>,
    /// When a name in the directory was made or removed last, before it was looked at.
    modified: Option<Modified>,
}

/// A time of modification, in seconds and nanoseconds.
type Modified = (i64, i64);

/// What a look at a lock has shown.
#[derive(Debug, Default)]
pub(super) struct LockLook {
    /// The lock, if it is not as it was seen last.
    pub(super) now: Option<LockSnapshot>,
    /// Whether there is no directory, or none that we may look into.
    pub(super) is_gone: bool,
    /// Whether it has contenders.
    pub(super) is_inhabited: bool,
    /// Whether a contender that may be about to end could not be watched.
    pub(super) is_short: bool,
}

impl FollowedLocks {
    pub(super) fn new(base: Arc<Base>, looker: Arc<Looker>, scope: Scope) -> Self {
        Self { base, looker, scope, locks: BTreeMap::new(), endings: Vec::new(), held: HolderPipes::default() }
    }

    /// Returns where the directory of a lock lies.
    pub(super) fn path(&self, lock: &str) -> PathBuf {
        self.base.queues().join(lock)
    }

    /// Names the directories of all locks that are followed, and of those that have no name yet.
    pub(super) fn directories(&self) -> Result<Vec<String>, Errno> {
        let entries = match std::fs::read_dir(self.base.queues()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| errno_of(&error))?,
        };
        let mut directories = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| errno_of(&error))?;
            directories.extend(entry.file_name().into_string().ok().filter(|lock| self.may_be_followed(lock)));
        }
        Ok(directories)
    }

    /// Whether a directory's lock is followed, as far as its own name tells.
    pub(super) fn may_be_followed(&self, lock: &str) -> bool {
        QueueName::is_digest(lock) || QueueName::decode(lock).is_some_and(|name| self.is_followed(&name))
    }

    fn is_followed(&self, name: &QueueName) -> bool {
        name.as_str().starts_with(&self.scope.prefix)
            || self.scope.also.iter().any(|also| also.as_str() == name.as_str())
    }

    /// Looks at a lock, and at those of its contenders that are new or are due.
    pub(super) fn look(&mut self, lock: &str, due: &Due) -> Result<LockLook, Errno> {
        match self.look_once(lock, due) {
            // To see who holds is worth more than to see how holders end.
            Err(Errno::MFILE | Errno::NFILE) if self.held.make_room() => self.look_once(lock, due),
            looked => looked,
        }
    }

    fn look_once(&mut self, lock: &str, due: &Due) -> Result<LockLook, Errno> {
        let path = self.path(lock);
        let modified = modified(&path);
        let name = directory::name_of(self.base.queues(), lock).filter(|name| self.is_followed(name));
        let found = match &name {
            Some(_) => listed(&path)?,
            // One without a name has no contender yet.
            None => None,
        };
        let (Some(name), Some((opened, listing))) = (name, found) else {
            return Ok(self.lose(lock));
        };
        let known = self.locks.get(lock).map_or(&[][..], |known| &known.seen);
        let known: BTreeMap<&str, &ContenderInfo> = known.iter().map(|info| (info.id.as_str(), info)).collect();
        let (mut seen, mut suspects) = (Vec::new(), Vec::new());
        for entry in [Part::Line, Part::Permits, Part::Waiters].iter().flat_map(|&part| listing.of(part)) {
            match known.get(entry.as_str()).filter(|_| !due.is_touched(entry.as_str())) {
                Some(&info) => seen.push(info.clone()),
                None if self.looker.look_at(&opened, entry)? == Some(ContenderState::Alive) => {
                    seen.push(info(&opened, entry, &listing));
                    suspects.extend(Some(entry).filter(|name| due.is_closed(name.as_str()) && !name.is_frozen));
                }
                None => {}
            }
        }
        let is_stale = self.locks.get(lock).is_none_or(|known| known.seen != seen);
        let was_inhabited = !known.is_empty();
        let is_short = suspects.into_iter().filter(|suspect| !self.suspect(lock, &opened, suspect)).count() > 0;
        self.endings.retain(|(of, ending)| of != lock || listing.contenders.contains(&ending.name));
        let is_inhabited = !seen.is_empty();
        let lost = self.held.take(lock, &opened, &seen, &self.looker);
        let now = (is_stale && (is_inhabited || was_inhabited))
            .then(|| LockSnapshot::new(name.clone(), seen.clone()).losing(lost));
        self.locks.insert(lock.to_owned(), FollowedLock { name, seen, modified });
        Ok(LockLook { now, is_gone: false, is_inhabited, is_short })
    }

    /// Watches a contender until its end; `false` if there is no room for that.
    fn suspect(&mut self, lock: &str, directory: &OwnedFd, name: &EntryName) -> bool {
        if self.endings.iter().any(|(_, ending)| ending.name == *name) {
            return true;
        }
        if self.endings.len() >= ENDINGS_MAX {
            return false;
        }
        match EndingContender::of(directory, name) {
            Ok(ending) => {
                self.endings.extend(ending.map(|ending| (lock.to_owned(), ending)));
                true
            }
            Err(_) => false,
        }
    }

    /// Forgets a lock that has no directory.
    fn lose(&mut self, lock: &str) -> LockLook {
        self.endings.retain(|(of, _)| of != lock);
        let lost = self.held.lose(lock, &self.looker);
        let known = self.locks.remove(lock).filter(|known| !known.seen.is_empty());
        let now = known.map(|known| LockSnapshot::new(known.name, Vec::new()).losing(lost));
        LockLook { now, is_gone: true, ..LockLook::default() }
    }

    /// Shows all locks with contenders.
    pub(super) fn all(&self) -> Vec<LockSnapshot> {
        let inhabited = self.locks.values().filter(|lock| !lock.seen.is_empty());
        inhabited.map(|lock| LockSnapshot::new(lock.name.clone(), lock.seen.clone())).collect()
    }

    /// Names the directories of the locks.
    pub(super) fn locks(&self) -> impl Iterator<Item = &str> {
        self.locks.keys().map(String::as_str)
    }

    /// Whether names in a lock's directory were made or removed since it was looked at.
    pub(super) fn is_modified(&self, lock: &str) -> bool {
        self.locks.get(lock).is_some_and(|known| known.modified != modified(&self.path(lock)))
    }

    /// Is ready when a contender has ended that might: the contender and its lock.
    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<(String, EndingContender)> {
        let ended = self.endings.iter().position(|(_, ending)| ending.poll(&self.looker, context).is_ready());
        ended.map_or(Poll::Pending, |at| Poll::Ready(self.endings.swap_remove(at)))
    }
}

fn modified(path: &Path) -> Option<Modified> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()))
}
