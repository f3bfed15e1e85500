//! Whether anything has happened to our pipes, asked far more often than anything happens.
//!
//! A look along the path costs a microsecond and a half, as much as everything else of a turn that passes within a
//! process. The kernel can be asked for a tenth of that: it queues the event of a removal while it removes, before any
//! process can see that the name is gone, and marks at the same moment that the queue is not empty. So a queue that is
//! empty proves that nothing has happened. What the events say is of no interest: whoever meets one looks along the
//! path.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::event::{Timespec, epoll};
use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;

use crate::locked;

/// How much of the queue one call throws away, in bytes: some sixty events, and each place has four in its whole life.
const EVENTS_BYTES: usize = 1_024;

/// The queue of events of a session's pipes; it is opened when the first pipe is watched.
#[derive(Debug, Default)]
pub(crate) struct Stirring {
    /// `None` inside if the kernel gives none.
    opened: OnceLock<Option<Opened>>,
}

#[derive(Debug)]
struct Opened {
    inotify: OwnedFd,
    /// Tells whether there are events, faster than any call on the queue itself.
    epoll: OwnedFd,
    /// Twice the number of times that events were thrown away, and odd while they are.
    emptied: AtomicU64,
    emptying: Mutex<()>,
}

/// A time in which nothing happened to any pipe that is watched, if it is the same at two moments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Calm(u64);

impl Stirring {
    /// Watches a file; `false` if the kernel does not.
    pub(crate) fn watch(&self, path: &str) -> bool {
        let opened = self.opened.get_or_init(|| Opened::open().ok()).as_ref();
        // A name that goes changes the attributes.
        let flags = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        opened.is_some_and(|opened| inotify::add_watch(&opened.inotify, path, flags).is_ok())
    }

    /// Returns the present calm: what a look finds that begins now is true for as long as this returns the same. `None`
    /// if there is none, and each caller has to look.
    pub(crate) fn calm(&self) -> Option<Calm> {
        let opened = self.opened.get()?.as_ref()?;
        if opened.has_events() {
            opened.empty();
        }
        // Read after the queue was seen empty. What was thrown away between a look and this moment has changed the
        // number; what is being thrown away may be younger than any look.
        let emptied = opened.emptied.load(Ordering::SeqCst);
        emptied.is_multiple_of(2).then_some(Calm(emptied))
    }
}

impl Opened {
    fn open() -> Result<Self, Errno> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &inotify, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { inotify, epoll, emptied: AtomicU64::new(0), emptying: Mutex::default() })
    }

    fn has_events(&self) -> bool {
        let mut event = [MaybeUninit::<epoll::Event>::uninit()];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If we cannot tell, there may be some.
        epoll::wait(&self.epoll, &mut event, Some(&at_once)).map_or(true, |(events, _)| !events.is_empty())
    }

    fn empty(&self) {
        let _alone = locked(&self.emptying);
        self.emptied.fetch_add(1, Ordering::SeqCst);
        let mut buffer = [0_u8; EVENTS_BYTES];
        while matches!(rustix::io::read(&self.inotify, &mut buffer), Ok(_) | Err(Errno::INTR)) {}
        self.emptied.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    #[test]
    fn a_calm_ends_with_each_thing_that_happens_to_a_file_that_is_watched() {
        let directory = tempfile::tempdir().unwrap();
        let [path, moved] = ["a", "b"].map(|name| directory.path().join(name));
        let stirring = Stirring::default();
        assert_eq!(stirring.calm(), None, "nothing is watched");
        std::fs::write(&path, "").unwrap();
        assert!(stirring.watch(path.to_str().unwrap()));
        let first = stirring.calm().unwrap();
        std::fs::write(directory.path().join("c"), "").unwrap();
        assert_eq!(stirring.calm(), Some(first), "another file is of no interest");
        std::fs::rename(&path, &moved).unwrap();
        let second = stirring.calm().unwrap();
        assert_ne!(second, first);
        assert_eq!(stirring.calm(), Some(second));
        std::fs::remove_file(&moved).unwrap();
        assert_ne!(stirring.calm(), Some(second));
        assert!(!stirring.watch(path.to_str().unwrap()), "there is no such file");
    }

    #[test]
    fn no_thread_sees_calm_after_an_event_that_another_thread_took() {
        const ROUNDS: usize = 2_000;
        let directory = tempfile::tempdir().unwrap();
        let stirring = Stirring::default();
        let path = |round: usize| directory.path().join(round.to_string());
        let (removed, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        let watch = |round: usize| {
            std::fs::write(path(round), "").unwrap();
            assert!(stirring.watch(path(round).to_str().unwrap()));
        };
        watch(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        let round = removed.load(Ordering::SeqCst);
                        let Ok(file) = std::fs::File::open(path(round)) else { continue };
                        let Some(calm) = stirring.calm() else { continue };
                        // The look: the link goes before the event comes, and the name after it.
                        if file.metadata().unwrap().nlink() != 1 {
                            continue;
                        }
                        while removed.load(Ordering::SeqCst) == round && !done.load(Ordering::SeqCst) {
                            std::hint::spin_loop();
                        }
                        assert!(done.load(Ordering::SeqCst) || stirring.calm() != Some(calm));
                    }
                });
            }
            for round in 0..ROUNDS {
                watch(round + 1);
                std::fs::remove_file(path(round)).unwrap();
                removed.fetch_add(1, Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
    }
}
