//! The ends of holders. An onlooker keeps the read end of each one's pipe: when its name has gone, the pipe still tells
//! whether it left by itself, was broken, or died.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use lockkeeper_core::{ContenderId, ContenderInfo};
use rustix::process::Resource;

use crate::contender_state::ContenderState;
use crate::pipe::{Looker, open_reader};

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
        seen: &[ContenderInfo],
        looker: &Looker,
    ) -> Vec<ContenderId> {
        // A contender of ours notes when it is granted what it asks for.
        let holds = |info: &&ContenderInfo| info.granted_unix.is_some();
        let mut watched = self.locks.remove(lock).unwrap_or_default();
        self.readers -= watched.len();
        let mut kept = BTreeMap::new();
        for holder in seen.iter().filter(holds) {
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
    use rustix::fs::{AtFlags, CWD, OFlags};

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

    fn infos(holders: &[&str], waiters: &[&str]) -> Vec<ContenderInfo> {
        let info = |id: &&str, granted_unix| {
            let mut info = ContenderInfo::new(ContenderId::new(*id), Mode::Mutex);
            info.granted_unix = granted_unix;
            info
        };
        let holders = holders.iter().map(|id| info(id, Some(Duration::from_secs(1))));
        holders.chain(waiters.iter().map(|id| info(id, None))).collect()
    }

    fn names(ids: &[ContenderId]) -> Vec<&str> {
        ids.iter().map(ContenderId::as_str).collect()
    }

    #[test]
    fn a_holder_that_dies_is_told_from_one_that_leaves_and_one_that_is_broken_whoever_removes_its_name() {
        let (scene, mut held) = (Scene::new(), HolderPipes::default());
        let [dies, leaves, broken, waits] = ["dies", "leaves", "broken", "waits"].map(|id| scene.enter(id));
        let ids = ["dies", "leaves", "broken"];
        let take =
            |held: &mut HolderPipes, seen: &[ContenderInfo]| held.take("lock", &scene.opened, seen, &scene.looker);
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
