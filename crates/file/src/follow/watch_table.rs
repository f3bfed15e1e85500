//! The kernel's reports, heard by one inotify instance, and which locks must be looked at for them. Where the kernel
//! gives no instance, or no more watches, a follower is blind in part.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::inotify::{ReadFlags, WatchFlags};

use crate::base::QUEUES;
use crate::directory::{BATCH_PREFIX, NAME, REQUEST_PREFIX};

/// How many contenders of one lock are remembered by name until it is looked at; with more of them, all are looked at.
const NAMES_MAX: usize = 1_000;

/// What an inotify watch is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum FollowSubject {
    Base,
    /// The directory of all locks.
    Queues,
    /// A lock's directory, by its name there.
    Lock(String),
}

/// What must be looked at of a lock, beside the names in its directory and the contenders that are new there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Due {
    /// Whether that is all contenders.
    pub(super) is_all: bool,
    /// Those that have changed.
    names: BTreeSet<Box<str>>,
    /// Those that came.
    came: BTreeSet<Box<str>>,
    /// How many more of them came than are named.
    more_came: u64,
    /// Those whose pipe a process was about to close.
    closed: BTreeSet<Box<str>>,
    /// Whether there are more of them than are named.
    more_closed: bool,
}

impl Due {
    /// Whether a contender must be looked at again.
    pub(super) fn is_touched(&self, name: &str) -> bool {
        self.is_all || self.names.contains(name)
    }

    /// Whether the contender may be about to end.
    pub(super) fn is_closed(&self, name: &str) -> bool {
        self.more_closed || self.closed.contains(name)
    }

    /// Names those that came, in the order of their names, and counts how many more there were.
    pub(super) fn came(&self) -> (impl Iterator<Item = &str>, u64) {
        (self.came.iter().map(AsRef::as_ref), self.more_came)
    }

    fn come(&mut self, name: &str) {
        if self.came.len() >= NAMES_MAX {
            self.more_came += 1;
        } else {
            self.came.insert(name.into());
        }
    }

    fn touch(&mut self, name: &str, is_closed: bool) {
        if self.names.len() >= NAMES_MAX {
            self.is_all = true;
            self.more_closed |= is_closed;
            return;
        }
        self.names.insert(name.into());
        if is_closed {
            self.closed.insert(name.into());
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct FollowWatches {
    subjects: BTreeMap<i32, FollowSubject>,
    /// By which watch a lock's directory is watched, as far as is known.
    watched: BTreeMap<String, i32>,
    due: BTreeMap<String, Due>,
    begins_anew: bool,
}

impl FollowWatches {
    pub(super) fn watch(&mut self, descriptor: i32, subject: FollowSubject) {
        if let FollowSubject::Lock(lock) = &subject {
            self.watched.insert(lock.clone(), descriptor);
        }
        self.subjects.insert(descriptor, subject);
    }

    /// Forgets by which watch a lock is watched, and returns it if it is of no use any more.
    pub(super) fn unwatch(&mut self, lock: &str) -> Option<i32> {
        let descriptor = self.watched.remove(lock)?;
        let is_of_it = self.subjects.get(&descriptor) == Some(&FollowSubject::Lock(lock.to_owned()));
        is_of_it.then(|| self.subjects.remove(&descriptor)).flatten().map(|_| descriptor)
    }

    /// Whether changes of a lock's directory are reported.
    pub(super) fn is_watched(&self, lock: &str) -> bool {
        self.watched.contains_key(lock)
    }

    pub(super) fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Notes what the kernel reports.
    pub(super) fn note(&mut self, descriptor: i32, events: ReadFlags, name: Option<&str>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.begins_anew = true;
            return;
        }
        let Some(subject) = self.subjects.get(&descriptor).cloned() else {
            return;
        };
        if events.contains(ReadFlags::IGNORED) {
            self.subjects.remove(&descriptor);
        }
        match (subject, name) {
            (FollowSubject::Base, Some(name)) => self.begins_anew |= name == QUEUES,
            (FollowSubject::Queues, Some(lock)) => {
                // Another directory may have the name by now.
                self.watched.remove(lock);
                self.touch_all(lock);
            }
            (FollowSubject::Base | FollowSubject::Queues, None) => self.begins_anew = true,
            (FollowSubject::Lock(lock), None) => {
                if self.watched.get(&lock) == Some(&descriptor) && events.contains(ReadFlags::IGNORED) {
                    self.watched.remove(&lock);
                }
                self.touch_all(&lock);
            }
            (FollowSubject::Lock(lock), Some(name)) => self.note_within(lock, events, name),
        }
    }

    fn note_within(&mut self, lock: String, events: ReadFlags, name: &str) {
        let is_closed = events.contains(ReadFlags::CLOSE_WRITE);
        // What is asked of a contender lies beside it.
        if name == NAME || name.starts_with(REQUEST_PREFIX) {
            self.touch_all(&lock);
            return;
        }
        if name.starts_with('.') && (is_closed || !name.starts_with(BATCH_PREFIX)) {
            return;
        }
        let due = self.due.entry(lock).or_default();
        due.touch(name, is_closed);
        if events.contains(ReadFlags::MOVED_TO) && !name.starts_with('.') {
            due.come(name);
        }
    }

    /// Has a contender looked at again.
    pub(super) fn touch(&mut self, lock: &str, name: &str) {
        self.note_within(lock.to_owned(), ReadFlags::empty(), name);
    }

    /// Has all contenders of a lock looked at again.
    pub(super) fn touch_all(&mut self, lock: &str) {
        self.due.entry(lock.to_owned()).or_default().is_all = true;
    }

    /// Whether there is a lock to be looked at.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the next lock that must be looked at.
    pub(super) fn next(&mut self) -> Option<(String, Due)> {
        self.due.pop_first()
    }

    /// Whether something was missed, or the directory of all locks is another one.
    pub(super) fn begins_anew(&self) -> bool {
        self.begins_anew
    }
}

pub(super) fn flags(subject: &FollowSubject) -> WatchFlags {
    let names = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
    let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
    match subject {
        FollowSubject::Base => names | itself,
        // Whether we may look into a lock's directory is one of its attributes.
        FollowSubject::Queues => names | itself | WatchFlags::ATTRIB,
        // The time of a grant is an attribute of a pipe, and a pipe without a name is of no interest any more.
        FollowSubject::Lock(_) => {
            names | itself | WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE | WatchFlags::EXCL_UNLINK
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FollowWatches {
        let mut table = FollowWatches::default();
        for (descriptor, subject) in [
            (1, FollowSubject::Base),
            (2, FollowSubject::Queues),
            (3, FollowSubject::Lock("a".into())),
            (4, FollowSubject::Lock("b".into())),
        ] {
            table.watch(descriptor, subject);
        }
        table
    }

    #[test]
    fn a_name_that_comes_goes_or_is_closed_has_its_lock_looked_at_and_what_is_prepared_has_not() {
        let mut table = table();
        table.note(3, ReadFlags::CREATE, Some(".new-1"));
        table.note(3, ReadFlags::CLOSE_WRITE, Some(".enter"));
        table.note(9, ReadFlags::CREATE, Some("x"));
        assert!(!table.is_due());
        table.note(3, ReadFlags::MOVED_TO, Some("x"));
        table.note(3, ReadFlags::CLOSE_WRITE, Some("y"));
        table.note(4, ReadFlags::DELETE, Some(".new-batch-1"));
        let (lock, due) = table.next().unwrap();
        let flags = ["x", "y", "z"].map(|name| (due.is_touched(name), due.is_closed(name)));
        assert_eq!((lock.as_str(), flags), ("a", [(true, false), (true, true), (false, false)]));
        let (lock, due) = table.next().unwrap();
        assert_eq!((lock.as_str(), due.is_touched("x")), ("b", false));
        table.note(4, ReadFlags::MOVED_TO, Some(".ask-1"));
        assert!(table.next().is_some_and(|(lock, due)| lock == "b" && due.is_all));
        table.note(4, ReadFlags::CLOSE_WRITE, Some("x"));
        table.touch_all("b");
        assert!(table.next().is_some_and(|(_, due)| due.is_touched("y") && due.is_closed("x")));
        assert!(!table.begins_anew() && !table.is_due());
    }

    #[test]
    fn who_came_is_named_until_its_lock_is_looked_at() {
        let mut table = table();
        for (events, name) in [
            (ReadFlags::MOVED_TO, "x"),
            (ReadFlags::DELETE, "x"),
            (ReadFlags::DELETE, "y"),
            (ReadFlags::MOVED_TO, ".z"),
        ] {
            table.note(3, events, Some(name));
        }
        let came = |table: &mut FollowWatches| {
            let (_, due) = table.next().unwrap();
            let (names, more) = due.came();
            (names.map(str::to_owned).collect::<Vec<_>>().join(" "), more)
        };
        assert_eq!(came(&mut table), ("x".to_owned(), 0));
        (0..NAMES_MAX + 2).for_each(|number| table.note(3, ReadFlags::MOVED_TO, Some(&number.to_string())));
        assert_eq!(came(&mut table).1, 2);
    }

    #[test]
    fn a_directory_that_is_another_one_by_now_is_watched_anew() {
        let mut table = table();
        table.note(2, ReadFlags::MOVED_FROM, Some("a"));
        table.note(2, ReadFlags::MOVED_TO, Some("c"));
        assert!(!table.is_watched("a"));
        table.watch(3, FollowSubject::Lock("c".into()));
        assert_eq!(table.unwatch("a"), None);
        table.watch(5, FollowSubject::Lock("b".into()));
        table.note(4, ReadFlags::IGNORED, None);
        assert!(table.is_watched("b"), "the watch that ended is that of an earlier directory");
        table.note(5, ReadFlags::IGNORED, None);
        assert!(!table.is_watched("b"));
        assert_eq!(table.unwatch("c"), Some(3));
    }

    #[test]
    fn lost_events_and_another_directory_of_all_locks_begin_all_anew() {
        for (descriptor, events, name) in [
            (-1, ReadFlags::QUEUE_OVERFLOW, None),
            (1, ReadFlags::CREATE, Some("queues")),
            (2, ReadFlags::DELETE_SELF, None),
        ] {
            let mut table = table();
            table.note(1, ReadFlags::CREATE, Some("counter"));
            assert!(!table.begins_anew());
            table.note(descriptor, events, name);
            assert!(table.begins_anew(), "{events:?}");
        }
    }

    #[test]
    fn the_names_that_are_remembered_are_bounded() {
        let mut table = table();
        for number in 0..=NAMES_MAX {
            table.note(3, ReadFlags::CLOSE_WRITE, Some(&number.to_string()));
        }
        let (_, due) = table.next().unwrap();
        assert!(due.names.len() == NAMES_MAX && due.is_touched("x") && due.is_closed("x"));
    }
}
