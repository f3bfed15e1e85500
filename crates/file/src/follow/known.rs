//! The locks that are followed, as they were seen last, looks at them, and how their holders end.
//!
//! A follower keeps the read end of each holder's pipe: when its name has gone, the pipe still tells whether it left by
//! itself, was broken, or died.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_core::{ContenderId, ContenderInfo, LockSnapshot, Part, PassedBetween, QueueName, Scope};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::base::Base;
use crate::changes::EndingContender;
use crate::directory::{self, ContenderState, DirectoryListing};
use crate::entry_name::EntryName;
use crate::errors::errno_of;
use crate::follow::watch_table::Due;
use crate::inspection::{info, listed, named};
use crate::pipe::{Looker, open_reader};

/// How many pipes are watched for their end at a time, beside those that a process may open anyway.
const ENDINGS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct FollowedQueues {
    base: Arc<Base>,
    looker: Arc<Looker>,
    scope: Scope,
    /// By the names of their directories.
    locks: BTreeMap<String, FollowedQueue>,
    /// Contenders that may be about to end, each with its lock.
    endings: Vec<(String, EndingContender)>,
    held: HolderPipes,
}

#[derive(Debug)]
struct FollowedQueue {
    name: QueueName,
    seen: Vec<Arc<ContenderInfo>>,
    /// When a name in the directory was made or removed last, before it was looked at.
    modified: Option<Modified>,
}

/// A time of modification, in seconds and nanoseconds.
type Modified = (i64, i64);

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

impl FollowedQueues {
    pub(super) fn new(base: Arc<Base>, looker: Arc<Looker>, scope: Scope) -> Self {
        Self { base, looker, scope, locks: BTreeMap::new(), endings: Vec::new(), held: HolderPipes::default() }
    }

    /// Returns where the directory of a lock lies.
    pub(super) fn path(&self, lock: &str) -> PathBuf {
        self.base.queues.join(lock)
    }

    /// Names the directories of all locks that are followed, and of those that have no name yet.
    pub(super) fn directories(&self) -> Result<Vec<String>, Errno> {
        let entries = match std::fs::read_dir(&self.base.queues) {
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
        let name = directory::name_of(&self.base.queues, lock).filter(|name| self.is_followed(name));
        let found = match &name {
            Some(_) => listed(&path)?,
            // One without a name has no contender yet.
            None => None,
        };
        let (Some(name), Some((opened, listing))) = (name, found) else {
            return Ok(self.lose(lock));
        };
        let known = self.locks.get(lock).map_or(&[][..], |known| &known.seen);
        let known: BTreeMap<&str, &Arc<ContenderInfo>> = known.iter().map(|info| (info.id.as_str(), info)).collect();
        let (mut seen, mut suspects) = (Vec::new(), Vec::new());
        for entry in [Part::Line, Part::Permits, Part::Waiters].iter().flat_map(|&part| listing.of(part)) {
            match known.get(entry.as_str()).filter(|_| !due.is_touched(entry.as_str())) {
                Some(&info) => seen.push(info.clone()),
                None if self.looker.look_at(&opened, entry)? == Some(ContenderState::Alive) => {
                    seen.push(Arc::new(info(&opened, entry, &listing)));
                    suspects.extend(Some(entry).filter(|name| due.is_closed(name.as_str()) && !name.is_frozen));
                }
                None => {}
            }
        }
        let between = passed(due, &known, &seen, &listing);
        let is_stale = self.locks.get(lock).is_none_or(|known| known.seen != seen);
        let was_inhabited = !known.is_empty();
        let is_short = suspects.into_iter().filter(|suspect| !self.suspect(lock, &opened, suspect)).count() > 0;
        self.endings.retain(|(of, ending)| of != lock || listing.contenders.contains(&ending.name));
        let is_inhabited = !seen.is_empty();
        let lost = self.held.take(lock, &opened, &seen, &self.looker);
        let is_news = is_stale && (is_inhabited || was_inhabited) || !between.is_empty();
        let now = is_news.then(|| LockSnapshot::new(name.clone(), seen.clone()).losing(lost).after(between));
        self.locks.insert(lock.to_owned(), FollowedQueue { name, seen, modified });
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

/// The contenders that were reported to come, and have gone before a look has shown them.
fn passed(
    due: &Due,
    known: &BTreeMap<&str, &Arc<ContenderInfo>>,
    seen: &[Arc<ContenderInfo>],
    listing: &DirectoryListing,
) -> PassedBetween {
    let (came, more) = due.came();
    let mut between = PassedBetween::counted(more);
    let mut new = came.filter(|name| !known.contains_key(name)).filter_map(EntryName::parse).peekable();
    if new.peek().is_none() {
        return between;
    }
    let seen: BTreeSet<_> = seen.iter().map(|info| info.id.as_str()).collect();
    let has_passed = |name: &EntryName| !seen.contains(name.as_str()) && !listing.is_unfinished(name);
    new.filter(|name| !name.is_frozen && has_passed(name)).for_each(|name| between.add(named(&name)));
    between
}

fn modified(path: &Path) -> Option<Modified> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()))
}

/// How many pipes are kept at most, however many files a process may open.
const READERS_MAX: usize = 10_000;

/// One of this number of the files that a process may open is such a pipe at most: the rest is its program's.
const READERS_SHARE: u64 = 4;

/// The holders of all locks, by the names of the locks' directories.
#[derive(Debug)]
pub(super) struct HolderPipes {
    locks: BTreeMap<String, BTreeMap<ContenderId, OwnedFd>>,
    readers: usize,
    readers_max: usize,
}

impl Default for HolderPipes {
    fn default() -> Self {
        let files = rustix::process::getrlimit(Resource::Nofile).current;
        let share = files.map_or(READERS_MAX, |files| usize::try_from(files / READERS_SHARE).unwrap_or(READERS_MAX));
        Self { locks: BTreeMap::new(), readers: 0, readers_max: share.min(READERS_MAX) }
    }
}

impl HolderPipes {
    /// Takes in who stands in a lock's directory now; returns the holders that have died since. How one ended that
    /// there was no room to watch is not known, and it counts as none that died.
    pub(super) fn take(
        &mut self,
        lock: &str,
        directory: &OwnedFd,
        seen: &[Arc<ContenderInfo>],
        looker: &Looker,
    ) -> Vec<ContenderId> {
        let mut watched = self.locks.remove(lock).unwrap_or_default();
        self.readers -= watched.len();
        let mut kept = BTreeMap::new();
        // A contender of ours notes when it is granted what it asks for.
        for holder in seen.iter().filter(|info| info.granted_unix.is_some()) {
            let has_room = self.readers < self.readers_max;
            let open = || has_room.then(|| open_reader(directory, holder.id.as_str()).ok()).flatten();
            if let Some(reader) = watched.remove(&holder.id).or_else(open) {
                kept.insert(holder.id.clone(), reader);
                self.readers += 1;
            }
        }
        if !kept.is_empty() {
            self.locks.insert(lock.to_owned(), kept);
        }
        died(watched, looker)
    }

    /// Closes half of the pipes, since the process has no file left to look with; tells whether there were any. How
    /// their holders end is not known.
    pub(super) fn make_room(&mut self) -> bool {
        self.readers_max = self.readers / 2;
        let had_any = self.readers > 0;
        while self.readers > self.readers_max {
            let Some((_, watched)) = self.locks.pop_last() else { break };
            self.readers -= watched.len();
        }
        had_any
    }

    /// Takes in that a lock has no directory any more; returns the holders that have died.
    pub(super) fn lose(&mut self, lock: &str, looker: &Looker) -> Vec<ContenderId> {
        let watched = self.locks.remove(lock).unwrap_or_default();
        self.readers -= watched.len();
        died(watched, looker)
    }
}

/// Names those whose process has closed its pipe without a word. One that is still open leaves just now.
fn died(gone: BTreeMap<ContenderId, OwnedFd>, looker: &Looker) -> Vec<ContenderId> {
    let has_died = |reader: &OwnedFd| looker.look(reader.as_fd()) == Ok(ContenderState::Dead);
    gone.into_iter().filter(|(_, reader)| has_died(reader)).map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::Mode;
    use rustix::fs::OFlags;

    use super::*;

    /// A lock's directory.
    struct Scene {
        directory: tempfile::TempDir,
        opened: OwnedFd,
        looker: Looker,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(directory.path(), flags, rustix::fs::Mode::empty()).unwrap();
            Self { directory, opened, looker: Looker::default() }
        }

        fn enter(&self, id: &str) -> OwnedFd {
            let path = self.directory.path().join(id);
            rustix::fs::mkfifoat(CWD, &path, rustix::fs::Mode::RWXU).unwrap();
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap()
        }

        fn remove(&self, id: &str) {
            rustix::fs::unlinkat(&self.opened, id, AtFlags::empty()).unwrap();
        }
    }

    fn infos(holders: &[&str], waiters: &[&str]) -> Vec<Arc<ContenderInfo>> {
        let info = |id: &&str, granted_unix| {
            let mut info = ContenderInfo::new(ContenderId::new(*id), Mode::Mutex);
            info.granted_unix = granted_unix;
            Arc::new(info)
        };
        let holders = holders.iter().map(|id| info(id, Some(Duration::from_secs(1))));
        holders.chain(waiters.iter().map(|id| info(id, None))).collect()
    }

    fn names(ids: &[ContenderId]) -> Vec<&str> {
        ids.iter().map(ContenderId::as_str).collect()
    }

    #[test]
    fn a_holder_that_dies_is_told_from_one_that_leaves_and_one_that_is_broken_if_its_name_has_gone() {
        let (scene, mut held) = (Scene::new(), HolderPipes::default());
        let [dies, leaves, broken, waits] = ["dies", "leaves", "broken", "waits"].map(|id| scene.enter(id));
        let ids = ["dies", "leaves", "broken"];
        let take =
            |held: &mut HolderPipes, seen: &[Arc<ContenderInfo>]| held.take("lock", &scene.opened, seen, &scene.looker);
        assert!(take(&mut held, &infos(&ids, &["waits"])).is_empty());
        assert_eq!(held.readers, 3);
        rustix::io::write(&leaves, &[1]).unwrap();
        rustix::io::write(&broken, &[2]).unwrap();
        drop((dies, waits));
        ids.iter().for_each(|id| scene.remove(id));
        assert_eq!(names(&take(&mut held, &[])), ["dies"]);
        assert_eq!((held.readers, held.locks.len()), (0, 0));
        assert!(take(&mut held, &[]).is_empty(), "it is told once");
    }

    #[test]
    fn half_of_the_pipes_are_closed_where_the_process_has_no_file_left_until_there_is_none() {
        let (scene, mut held) = (Scene::new(), HolderPipes::default());
        let pipes = ["a", "b", "c"].map(|id| scene.enter(id));
        for lock in ["a", "b", "c"] {
            assert!(held.take(lock, &scene.opened, &infos(&[lock], &[]), &scene.looker).is_empty());
        }
        assert!(held.make_room());
        assert_eq!((held.readers, held.readers_max), (1, 1));
        drop(pipes);
        assert!(held.lose("c", &scene.looker).is_empty(), "how it ended is not known");
        assert_eq!(names(&held.lose("a", &scene.looker)), ["a"]);
        assert!(!held.make_room(), "there was none to close");
    }

    #[test]
    fn a_holder_whose_directory_has_gone_is_known_by_its_pipe_and_one_without_room_is_not_known() {
        let (scene, mut held) = (Scene::new(), HolderPipes { readers_max: 2, ..HolderPipes::default() });
        let [first, second, third] = ["a", "b", "c"].map(|id| scene.enter(id));
        assert!(held.take("lock", &scene.opened, &infos(&["a", "b", "c"], &[]), &scene.looker).is_empty());
        assert_eq!(held.readers, 2);
        ["a", "b", "c"].iter().for_each(|id| scene.remove(id));
        drop((second, third));
        assert_eq!(names(&held.lose("lock", &scene.looker)), ["b"], "the first leaves just now");
        drop(first);
        assert_eq!(held.readers, 0);
    }
}
