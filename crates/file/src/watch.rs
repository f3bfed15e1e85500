//! Events of files and directories that other processes change, by inotify.
//!
//! A wait for the contender ahead never uses inotify: the kernel gives a user 128 instances by default. One instance
//! for each session and runtime serves all its holds and all waits for whole queues. It is made at the first such wait.
//! The last one is kept until the session ends, since closing one takes the kernel milliseconds.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;

use crate::directory::{BATCH_PREFIX, ENTER, VALUE_PREFIX};
use crate::errors::errno_of;
use crate::site::PerRuntime;

/// How often we look when the kernel gives no inotify instance or watch.
///
/// A look is a few system calls; a removal by an operator needs no faster answer, since the guard itself looks whenever
/// it is asked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The room for events that are read at once, in bytes: at least sixty of them with the longest names.
const EVENTS_BYTES: usize = 16 * 1024;

/// How many closed files of one directory are remembered by name for watchers that have yet to read them. A watcher
/// that is further behind is told that there were more.
const CLOSED_MAX: usize = 64;

/// One inotify instance, or why the kernel gave none. It must be opened on a runtime with its I/O driver.
#[derive(Debug)]
pub(crate) struct Inotify(Result<Receiver, Errno>);

/// A session's inotify instances: one for each runtime that waits.
#[derive(Debug)]
pub(crate) struct SessionWatches {
    instances: Mutex<Instances>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Instances {
    by_runtime: PerRuntime<Instance>,
    /// The one that was used last.
    kept: Option<Arc<Instance>>,
}

#[derive(Debug)]
struct Instance {
    inotify: Inotify,
    subjects: Mutex<BTreeMap<i32, WatchSubject>>,
}

/// What one inotify watch is about.
#[derive(Debug)]
struct WatchSubject {
    topic: WatchTopic,
    watches: usize,
    events: Arc<SubjectEvents>,
}

#[derive(Debug, Default)]
struct SubjectEvents {
    log: Mutex<EventLog>,
    added: Notify,
}

#[derive(Debug, Default)]
struct EventLog {
    events: u64,
    /// The last event after which the directory itself may have begun, ended or been lost from sight.
    unsettled_by: u64,
    /// The files that were closed by a writer, by event.
    closed: VecDeque<(u64, Box<str>)>,
    /// The last event whose closed file is not remembered any more.
    forgotten: u64,
}

/// What has changed since a watcher last looked.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct WatchChange {
    /// The directory may be another one by now, or none.
    pub(crate) is_unsettled: bool,
    /// The files of the directory that a writer has closed. The kernel reports a close before it is done: what such a
    /// file looks like now may not be final.
    pub(crate) closed: Vec<Box<str>>,
    /// Whether there were more of them than are named.
    pub(crate) more_closed: bool,
}

/// A watch for changes of one file or directory, from the moment it was made.
#[derive(Debug)]
pub(crate) enum FileWatch {
    /// The kernel reports them.
    Inotify(InotifyWatch),
    /// It does not, so we look from time to time.
    Clock {
        clock: Arc<dyn Clock>,
        /// When we look next, also if there is no waiter in between.
        look_at: BootInstant,
    },
}

#[derive(Debug)]
pub(crate) struct InotifyWatch {
    instance: Arc<Instance>,
    descriptor: i32,
    events: Arc<SubjectEvents>,
    /// The last event that was taken.
    last_event: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WatchTopic {
    /// One contender: that its name goes, which is a change of its attributes, and that a process knocks, which is the
    /// closing of a write end.
    Contender,
    /// A lock's directory: that names come and go, and that processes close pipes.
    Lock,
    /// The directory of all locks: that locks come and go.
    Queues,
}

impl WatchTopic {
    fn flags(self) -> WatchFlags {
        let names = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        match self {
            Self::Contender => WatchFlags::ATTRIB | WatchFlags::CLOSE_WRITE,
            // A pipe without a name is of no interest any more.
            Self::Lock => names | itself | WatchFlags::CLOSE_WRITE | WatchFlags::EXCL_UNLINK,
            Self::Queues => names | itself,
        }
    }

    /// Tells whether a name in a directory is of no interest: it is being prepared, or is not a contender.
    fn ignores(self, name: &str, is_closed: bool) -> bool {
        match (self, name) {
            (Self::Lock, ENTER) => is_closed,
            // What is made together is seen from the moment that its mark is gone.
            (Self::Lock, name) if name.starts_with(BATCH_PREFIX) => is_closed,
            (Self::Lock, name) => name.starts_with('.') && !name.starts_with(VALUE_PREFIX),
            _ => false,
        }
    }
}

impl Inotify {
    pub(crate) fn open() -> Self {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        // A receiver of bytes from a file descriptor is all that the runtime has to know of it.
        let receiver = |opened| Receiver::from_owned_fd_unchecked(opened).map_err(|error| errno_of(&error));
        Self(opened.and_then(receiver))
    }

    /// Watches a file or a directory from now on.
    pub(crate) fn watch(&self, path: impl Arg, flags: WatchFlags) -> Result<i32, Errno> {
        inotify::add_watch(self.0.as_ref().map_err(|errno| *errno)?, path, flags)
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, descriptor: i32) {
        if let Ok(receiver) = &self.0 {
            // It may have ended together with its file.
            let _ = inotify::remove_watch(receiver, descriptor);
        }
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&self) {
        match &self.0 {
            Ok(receiver) if receiver.readable().await.is_ok() => {}
            // The runtime is ending, or there never is.
            _ => std::future::pending().await,
        }
    }

    /// Reads until there is nothing more, so that the runtime reports what comes next.
    pub(crate) fn read(&self, note: impl FnMut(i32, ReadFlags, Option<&str>)) -> Result<(), Errno> {
        let Ok(receiver) = &self.0 else {
            return Ok(());
        };
        match receiver.try_io(|| Ok(read_all(receiver, note)?)) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => Err(errno_of(&error)),
            _ => Ok(()),
        }
    }

    /// The same, also of what the runtime has not reported yet.
    pub(crate) fn read_now(&self, note: impl FnMut(i32, ReadFlags, Option<&str>)) -> Result<(), Errno> {
        match self.0.as_ref().map(|receiver| read_all(receiver, note)) {
            Ok(Err(errno)) if errno != Errno::AGAIN => Err(errno),
            _ => Ok(()),
        }
    }
}

/// Reads until it would have to wait, which is told as an error.
fn read_all(from: impl AsFd, mut note: impl FnMut(i32, ReadFlags, Option<&str>)) -> Result<Infallible, Errno> {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = inotify::Reader::new(from, &mut buffer);
    loop {
        let event = reader.next()?;
        // A name that is not text is none of ours.
        if let Ok(name) = event.file_name().map(CStr::to_str).transpose() {
            note(event.wd(), event.events(), name);
        }
    }
}

impl SessionWatches {
    /// Prepares to watch; nothing is opened yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { instances: Mutex::default(), clock }
    }

    /// Watches from now on; on a runtime with its I/O driver, and with its time driver if the kernel gives no inotify.
    /// Fails only if there is no such file.
    pub(crate) fn watch(&self, path: &str, topic: WatchTopic) -> Result<FileWatch, Errno> {
        match InotifyWatch::new(self.here(), path, topic) {
            Ok(watch) => Ok(FileWatch::Inotify(watch)),
            Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => Err(errno),
            Err(errno) => {
                warn_once(errno);
                let clock = self.clock.clone();
                Ok(FileWatch::Clock { look_at: clock.now().saturating_add(LOOK_INTERVAL), clock })
            }
        }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn here(&self) -> Arc<Instance> {
        let mut instances = self.instances.lock();
        if let Some(instance) = instances.by_runtime.here() {
            return instance;
        }
        let instance = Arc::new(Instance { inotify: Inotify::open(), subjects: Mutex::default() });
        if instance.inotify.0.is_ok() {
            instances.by_runtime.set_here(&instance);
            instances.kept = Some(instance.clone());
        }
        instance
    }
}

impl FileWatch {
    /// Waits until something has changed.
    pub(crate) async fn changed(&mut self) -> WatchChange {
        match self {
            Self::Inotify(watch) => watch.changed().await,
            Self::Clock { clock, look_at } => {
                clock.sleep_until(*look_at).await;
                *look_at = clock.now().saturating_add(LOOK_INTERVAL);
                WatchChange { is_unsettled: true, ..WatchChange::default() }
            }
        }
    }
}

impl InotifyWatch {
    fn new(instance: Arc<Instance>, path: &str, topic: WatchTopic) -> Result<Self, Errno> {
        let mut subjects = instance.subjects.lock();
        let descriptor = instance.inotify.watch(path, topic.flags())?;
        let subject =
            subjects.entry(descriptor).or_insert_with(|| WatchSubject { topic, watches: 0, events: Arc::default() });
        subject.watches += 1;
        let events = subject.events.clone();
        let last_event = events.log.lock().events;
        drop(subjects);
        Ok(Self { instance, descriptor, events, last_event })
    }

    async fn changed(&mut self) -> WatchChange {
        loop {
            let added = self.events.added.notified();
            tokio::pin!(added);
            // From here on no event is missed, no matter which watcher reads it.
            added.as_mut().enable();
            if let Some(change) = self.events.log.lock().since(&mut self.last_event) {
                return change;
            }
            tokio::select! {
                () = &mut added => {}
                () = self.instance.inotify.readable() => self.instance.hand_out(),
            }
        }
    }
}

/// The kernel need not report what is not watched any more.
impl Drop for InotifyWatch {
    fn drop(&mut self) {
        let mut subjects = self.instance.subjects.lock();
        let Some(subject) = subjects.get_mut(&self.descriptor) else {
            return;
        };
        subject.watches -= 1;
        if subject.watches == 0 {
            subjects.remove(&self.descriptor);
            self.instance.inotify.unwatch(self.descriptor);
        }
    }
}

impl Instance {
    fn hand_out(&self) {
        let read = self.inotify.read(|descriptor, events, name| self.hand_on(descriptor, events, name));
        debug_assert!(read.is_ok(), "{read:?}");
    }

    fn hand_on(&self, descriptor: i32, events: ReadFlags, file_name: Option<&str>) {
        let subjects = self.subjects.lock();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            for subject in subjects.values() {
                subject.events.log.lock().lose_track();
                subject.events.added.notify_waiters();
            }
        } else if let Some(subject) = subjects.get(&descriptor)
            && subject.events.log.lock().add(subject.topic, events, file_name)
        {
            subject.events.added.notify_waiters();
        }
    }
}

impl EventLog {
    /// Notes an event; `false` if no watcher needs it.
    fn add(&mut self, topic: WatchTopic, events: ReadFlags, file_name: Option<&str>) -> bool {
        let is_closed = events.contains(ReadFlags::CLOSE_WRITE);
        if file_name.is_some_and(|name| topic.ignores(name, is_closed)) {
            return false;
        }
        self.events += 1;
        let is_of_itself = file_name.is_none_or(|name| topic == WatchTopic::Queues || name == ENTER);
        if is_of_itself && !is_closed {
            self.unsettled_by = self.events;
        }
        if let Some(name) = file_name.filter(|_| is_closed) {
            self.closed.push_back((self.events, name.into()));
            if self.closed.len() > CLOSED_MAX
                && let Some((forgotten, _)) = self.closed.pop_front()
            {
                self.forgotten = forgotten;
            }
        }
        true
    }

    /// Notes that events were lost.
    fn lose_track(&mut self) {
        self.events += 1;
        self.unsettled_by = self.events;
        self.forgotten = self.events;
        self.closed.clear();
    }

    /// Returns what has changed since the event `last`, and moves `last` on.
    fn since(&self, last: &mut u64) -> Option<WatchChange> {
        if self.events == *last {
            return None;
        }
        let since = std::mem::replace(last, self.events);
        let closed = self.closed.iter().filter(|(event, _)| *event > since).map(|(_, name)| name.clone());
        Some(WatchChange {
            is_unsettled: self.unsettled_by > since,
            closed: closed.collect(),
            more_closed: self.forgotten > since,
        })
    }
}

fn warn_once(errno: Errno) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(%errno, "the kernel has no inotify to give; what others do is noticed within a second");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_prepared_is_not_reported_and_what_is_closed_is_reported_by_name() {
        let (mut log, mut last) = (EventLog::default(), 0);
        assert!(!log.add(WatchTopic::Lock, ReadFlags::CREATE, Some(".new-1")));
        assert!(!log.add(WatchTopic::Lock, ReadFlags::CLOSE_WRITE, Some(ENTER)));
        assert_eq!(log.since(&mut last), None);
        assert!(
            log.add(WatchTopic::Lock, ReadFlags::MOVED_TO, Some("a"))
                && log.add(WatchTopic::Lock, ReadFlags::CLOSE_WRITE, Some("b"))
        );
        let change = log.since(&mut last).unwrap();
        assert_eq!(change, WatchChange { closed: vec!["b".into()], ..WatchChange::default() });
        assert_eq!(log.since(&mut last), None);
        assert!(log.add(WatchTopic::Queues, ReadFlags::CREATE, Some(".new-1")), "a lock may be called so");
        assert!(log.since(&mut last).unwrap().is_unsettled);
        assert!(log.add(WatchTopic::Lock, ReadFlags::DELETE, Some(ENTER)));
        assert!(log.since(&mut last).unwrap().is_unsettled);
    }

    #[test]
    fn a_watcher_that_is_too_far_behind_is_told_that_there_was_more() {
        let (mut log, mut last) = (EventLog::default(), 0);
        for _ in 0..=CLOSED_MAX {
            log.add(WatchTopic::Lock, ReadFlags::CLOSE_WRITE, Some("a"));
        }
        let change = log.since(&mut last).unwrap();
        assert_eq!((change.closed.len(), change.more_closed), (CLOSED_MAX, true));
        log.add(WatchTopic::Lock, ReadFlags::CLOSE_WRITE, Some("b"));
        let change = log.since(&mut last).unwrap();
        assert_eq!((change.closed, change.more_closed), (vec!["b".into()], false));
        log.lose_track();
        let change = log.since(&mut last).unwrap();
        assert!(change.is_unsettled && change.more_closed);
    }
}
