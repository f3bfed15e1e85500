//! The named pipes of contenders: our own end, and a look at another's.
//!
//! The owner keeps the write end open; the kernel closes it when the process dies, however it dies. A waiter holds the
//! read end. A contender that leaves unlinks its pipe, writes one byte and closes: the byte wakes those who watch even
//! if some other process has inherited the write end. A process that breaks a contender writes another byte first and
//! then unlinks the pipe, and a process that meets that byte unlinks it too before going on. So the owner can tell
//! before another client is granted the lock, at whichever point the breaker dies.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Lifetime, LossReason};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::access::MadeKind;
use crate::directory::ContenderState;
use crate::directory::QueueDirectory;
use crate::entry_name::EntryName;
use crate::frozen;
use crate::shared_files::{self, FileIdentity, TEMPORARY_PREFIX};
use crate::site::BaseSite;

/// How a contender of ours stands in its queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PipeState {
    /// Where it was made.
    Stands,
    /// Nowhere: it left, or was removed.
    Removed,
    /// In a directory that is not the queue's any more: its path leads to another directory, or to none.
    Displaced,
}

/// The byte of a contender that left by itself, or that noticed its removal.
const LEFT: u8 = 1;

/// The byte of a contender that was broken.
const BROKEN: u8 = 2;

/// Our own contender.
#[derive(Debug)]
pub(crate) struct Pipe {
    site: Arc<BaseSite>,
    name: EntryName,
    /// Where it was made.
    path: PathBuf,
    /// The write end, or the file of one that outlives us; `None` once we left.
    writer: Mutex<Option<OwnedFd>>,
    /// What the write end is: no other file is the same while it is open.
    identity: FileIdentity,
    /// When it was made, as the file system has it.
    made_at: Timespec,
}

impl Pipe {
    /// Makes the pipe under a temporary name, opens it, and moves it into the queue; under the queue's lock.
    ///
    /// It has its name only when its write end is open, so that no other process takes it for dead.
    pub(crate) fn enter(within: &QueueDirectory, name: EntryName, lifetime: &Lifetime) -> Result<Self, Errno> {
        let file = match lifetime {
            Lifetime::Session => make(within, &name),
            Lifetime::Persistent { reason } => frozen::enter(within, &name, reason),
        };
        let (file, site) = (file?, within.site().clone());
        let path = site.path().join(name.as_str());
        let stat = rustix::fs::fstat(&file)?;
        let made_at =
            Timespec { tv_sec: stat.st_mtime, tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or_default() };
        let identity = FileIdentity::of(&stat);
        Ok(Self { site, name, path, writer: Mutex::new(Some(file)), identity, made_at })
    }

    pub(crate) fn name(&self) -> &EntryName {
        &self.name
    }

    /// Returns the directory where it stands.
    pub(crate) fn site(&self) -> &Arc<BaseSite> {
        &self.site
    }

    /// Leaves the queue; does nothing the second time. Never waits.
    pub(crate) fn leave(&self) -> Result<(), Errno> {
        let Some(writer) = self.writer.lock().take() else {
            return Ok(());
        };
        let unlinked = match rustix::fs::unlinkat(self.site.directory(), self.name.as_str(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            outcome => outcome,
        };
        if self.name.is_frozen {
            // Else it could come back with a crash of the machine.
            return unlinked.and_then(|()| rustix::fs::fsync(self.site.directory()));
        }
        self.tell(&writer);
        unlinked
    }

    /// Notes when it was granted what it asks for, as the pipe's time of access: the pipe is never read, so nothing
    /// else changes that time.
    pub(crate) fn note_grant(&self, granted_unix: Duration) {
        let granted_at = Timespec {
            tv_sec: i64::try_from(granted_unix.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: granted_unix.subsec_nanos().into(),
        };
        if let Some(writer) = self.writer.lock().as_ref().filter(|_| !self.name.is_frozen) {
            // It is for observers; without it they see how long it has been here.
            // Where both times are set, if only to what they are, the kernel reports a change of the pipe's attributes,
            // and followers look; where the time of access alone is, it reports an access, as it does of each reader.
            let times = Timestamps { last_access: granted_at, last_modification: self.made_at };
            let _ = rustix::fs::futimens(writer, &times);
        }
    }

    /// Tells how it stands in the queue that has the name now.
    pub(crate) fn state(&self) -> PipeState {
        let writer = self.writer.lock();
        let Some(writer) = writer.as_ref() else {
            return PipeState::Removed;
        };
        let looked = shared_files::leads_to_this(&self.path, self.identity, writer);
        let has_name = || rustix::fs::fstat(writer).is_ok_and(|ours| ours.st_nlink > 0);
        state(looked, has_name, || self.site.is_replaced())
    }

    /// Tells whether we left the queue.
    pub(crate) fn has_left(&self) -> bool {
        self.writer.lock().is_none()
    }

    pub(crate) fn stands(&self) -> bool {
        self.state() == PipeState::Stands
    }

    /// Says why it does not stand in the queue any more, and wakes the waiters behind it, which may not have noticed.
    pub(crate) fn conclude(&self) -> LossReason {
        let writer = self.writer.lock();
        let Some(writer) = writer.as_ref() else {
            return LossReason::Removed;
        };
        let is_broken = if self.name.is_frozen {
            frozen::is_broken(writer)
        } else {
            Looker::default().look(writer.as_fd()) == Ok(ContenderState::Broken)
        };
        self.tell(writer);
        if is_broken { LossReason::Broken } else { LossReason::Removed }
    }

    /// Returns another descriptor of the write end.
    pub(crate) fn lifeline(&self) -> Option<OwnedFd> {
        if self.name.is_frozen {
            return None;
        }
        // std's duplicate is closed on exec, too.
        self.writer.lock().as_ref().and_then(|writer| writer.try_clone().ok())
    }

    /// Calls `action` with a path that leads to the pipe wherever it is, unless we left.
    pub(crate) fn with_path<T>(&self, action: impl FnOnce(&str) -> T) -> Option<T> {
        self.writer.lock().as_ref().map(|writer| action(&path_of(writer)))
    }

    fn tell(&self, writer: &OwnedFd) {
        if !self.name.is_frozen {
            // If the byte does not fit, the pipe is full of others' bytes, and they wake the watchers just as well.
            let _ = rustix::io::write(writer, &[LEFT]);
        }
    }
}

/// Judges by what came of the look along the path.
fn state(
    looked: Result<bool, Errno>,
    has_name: impl FnOnce() -> bool,
    is_replaced: impl FnOnce() -> bool,
) -> PipeState {
    match looked {
        Ok(true) => PipeState::Stands,
        // A look that fails shows nothing: the kernel is short of memory, or the disk does not answer.
        Err(_) if has_name() => PipeState::Stands,
        _ if is_replaced() => PipeState::Displaced,
        _ => PipeState::Removed,
    }
}

/// A pipe that was not withdrawn is closed, and so known to be dead; its name goes as well.
impl Drop for Pipe {
    fn drop(&mut self) {
        if self.name.is_frozen {
            return;
        }
        if let Err(errno) = self.leave() {
            tracing::warn!(contender = self.name.as_str(), %errno, "could not unlink our contender; it counts as dead");
        }
    }
}

/// Returns a path that leads to an open file wherever it is.
pub(crate) fn path_of(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn make(within: &QueueDirectory, name: &EntryName) -> Result<OwnedFd, Errno> {
    let directory = within.directory();
    let temporary = format!("{TEMPORARY_PREFIX}{}", name.ticket);
    let access = within.access();
    rustix::fs::mkfifoat(directory, &temporary, access.mode_of_new(MadeKind::File))?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let entered = rustix::fs::openat(directory, &temporary, flags, rustix::fs::Mode::empty()).and_then(|writer| {
        if access.is_shared {
            access.open_up(&writer, MadeKind::File)?;
        }
        rustix::fs::renameat(directory, &temporary, directory, name.as_str())?;
        Ok(writer)
    });
    if entered.is_err() {
        // If this fails too, the next who removes the directory removes it.
        let _ = within.remove(&temporary);
    }
    entered
}

/// Looks at other contenders' pipes without taking anything out of them.
///
/// Copying a byte to a scratch pipe tells all the states in one call, and leaves the byte for other observers. Polling
/// cannot tell that no process had the write end when we opened, and reading would take the byte.
#[derive(Debug, Default)]
pub(crate) struct Looker {
    scratch: Mutex<Option<(OwnedFd, OwnedFd)>>,
}

impl Looker {
    /// Looks at an open pipe.
    pub(crate) fn look(&self, reader: BorrowedFd<'_>) -> Result<ContenderState, Errno> {
        let mut scratch = self.scratch.lock();
        let (drain, copy) = match &mut *scratch {
            Some(ends) => ends,
            none => none.insert(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?),
        };
        match rustix::io::retry_on_intr(|| rustix::pipe::tee(reader, &*copy, 1, SpliceFlags::NONBLOCK)) {
            Ok(0) => Ok(ContenderState::Dead),
            Ok(_) => {
                let mut byte = [0_u8; 1];
                rustix::io::read(drain, &mut byte)?;
                Ok(if byte == [BROKEN] { ContenderState::Broken } else { ContenderState::Left })
            }
            Err(Errno::AGAIN) => Ok(ContenderState::Alive),
            // A file that is not a pipe has no process behind it.
            Err(Errno::INVAL) => Ok(ContenderState::Dead),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a contender of a directory and looks at it; `None` if it is gone.
    pub(crate) fn look_at(&self, directory: impl AsFd, name: &EntryName) -> Result<Option<ContenderState>, Errno> {
        if name.is_frozen {
            return frozen::look_at(directory, name);
        }
        match open_reader(directory, name.as_str()) {
            Ok(reader) => self.look(reader.as_fd()).map(Some),
            Err(Errno::NOENT) => Ok(None),
            // We may not know, so we must not say that it is dead.
            Err(Errno::ACCESS) => Ok(Some(ContenderState::Alive)),
            Err(errno) => Err(errno),
        }
    }
}

/// Opens the read end of a contender's pipe; never waits.
pub(crate) fn open_reader(directory: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, name, flags, rustix::fs::Mode::empty())
}

/// Marks a contender as broken, which wakes those who watch it; `false` if it is dead or gone.
pub(crate) fn mark_broken(looker: &Looker, directory: impl AsFd, name: &EntryName) -> Result<bool, Errno> {
    let marked = if name.is_frozen {
        frozen::mark_broken(directory, name).map(|()| true)
    } else {
        write_mark(looker, directory, name)
    };
    if marked == Err(Errno::NOENT) { Ok(false) } else { marked }
}

fn write_mark(looker: &Looker, directory: impl AsFd, name: &EntryName) -> Result<bool, Errno> {
    // While we have a read end the write below finds one, even if the owner dies meanwhile.
    let reader = open_reader(&directory, name.as_str())?;
    if looker.look(reader.as_fd())? != ContenderState::Alive {
        return Ok(false);
    }
    let writer = open_writer(directory, name)?;
    rustix::io::write(writer, &[BROKEN])?;
    Ok(true)
}

/// Wakes the owner of a contender, so that it looks for requests: the closing of a write end is an event, and writes
/// nothing.
pub(crate) fn knock(directory: impl AsFd, name: &EntryName) -> Result<(), Errno> {
    match open_writer(directory, name) {
        Ok(_) | Err(Errno::NOENT | Errno::NXIO) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn open_writer(directory: impl AsFd, name: &EntryName) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, name.as_str(), flags, rustix::fs::Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_core::{Entry, FencingToken, Mode, Owner, Part, QueueName, Ticket};

    use super::*;
    use crate::base::Base;
    use crate::entry_name::EntryPosition;

    fn entered(directory: &Path) -> (QueueDirectory, Pipe) {
        let base = Base::open(directory, Arc::new(SystemClock)).unwrap();
        let within = QueueDirectory::open(&base, &QueueName::new("q").unwrap()).unwrap();
        let entry = Entry::new(Ticket::from_bits(7), Mode::Mutex, Arc::new(Owner::new("h", 1, "c")));
        let name = EntryName::compose(EntryPosition::tail(FencingToken::new(1, 0).unwrap()), Part::Line, &entry);
        let pipe = Pipe::enter(&within, name, &entry.lifetime).unwrap();
        (within, pipe)
    }

    #[test]
    fn a_pipe_is_alive_then_left_for_all_who_look() {
        let directory = tempfile::tempdir().unwrap();
        let (within, pipe) = entered(directory.path());
        let looker = Looker::default();
        let readers = [(); 40].map(|()| open_reader(within.directory(), pipe.name().as_str()).unwrap());
        let inherited = pipe.lifeline().unwrap();
        for reader in &readers {
            assert_eq!(looker.look(reader.as_fd()), Ok(ContenderState::Alive));
        }
        assert!(pipe.stands());
        pipe.leave().unwrap();
        assert!(!pipe.stands());
        for reader in readers.iter().chain(&readers) {
            assert_eq!(
                looker.look(reader.as_fd()),
                Ok(ContenderState::Left),
                "while another process has the write end"
            );
        }
        drop(inherited);
        assert_eq!(looker.look_at(within.directory(), pipe.name()), Ok(None));
        assert_eq!(pipe.leave(), Ok(()));
    }

    #[test]
    fn a_pipe_without_a_writer_is_dead_seen_early_or_late() {
        let directory = tempfile::tempdir().unwrap();
        let (within, pipe) = entered(directory.path());
        let looker = Looker::default();
        let early = open_reader(within.directory(), pipe.name().as_str()).unwrap();
        // As the kernel does when a process is killed.
        drop(pipe.writer.lock().take());
        assert_eq!(looker.look(early.as_fd()), Ok(ContenderState::Dead));
        drop(early);
        assert_eq!(looker.look_at(within.directory(), pipe.name()), Ok(Some(ContenderState::Dead)));
    }

    #[test]
    fn a_broken_pipe_says_so_to_its_owner_and_to_all_who_look() {
        let directory = tempfile::tempdir().unwrap();
        let (within, pipe) = entered(directory.path());
        let looker = Looker::default();
        let early = open_reader(within.directory(), pipe.name().as_str()).unwrap();
        assert_eq!(mark_broken(&Looker::default(), within.directory(), pipe.name()), Ok(true));
        assert_eq!(looker.look(early.as_fd()), Ok(ContenderState::Broken));
        within.remove(pipe.name().as_str()).unwrap();
        assert_eq!((pipe.stands(), pipe.conclude()), (false, LossReason::Broken));
        assert_eq!(looker.look(early.as_fd()), Ok(ContenderState::Broken));
        assert_eq!(mark_broken(&Looker::default(), within.directory(), pipe.name()), Ok(false));
    }

    #[test]
    fn a_look_that_fails_is_no_removal_while_the_pipe_has_a_name() {
        for errno in [Errno::NOMEM, Errno::IO, Errno::NAMETOOLONG] {
            assert_eq!(state(Err(errno), || true, || false), PipeState::Stands, "{errno}");
            assert_eq!(state(Err(errno), || false, || false), PipeState::Removed, "{errno}");
        }
        assert_eq!(state(Ok(false), || true, || false), PipeState::Removed);
        assert_eq!(state(Ok(false), || true, || true), PipeState::Displaced);
    }

    #[test]
    fn a_dead_pipe_is_not_broken() {
        let directory = tempfile::tempdir().unwrap();
        let (within, pipe) = entered(directory.path());
        drop(pipe.writer.lock().take());
        assert_eq!(mark_broken(&Looker::default(), within.directory(), pipe.name()), Ok(false));
    }

    #[test]
    fn a_file_that_is_not_a_pipe_counts_as_dead() {
        let directory = tempfile::tempdir().unwrap();
        let (within, pipe) = entered(directory.path());
        pipe.leave().unwrap();
        let path = directory.path().join("queues/q").join(pipe.name().as_str());
        std::fs::write(path, "").unwrap();
        assert_eq!(Looker::default().look_at(within.directory(), pipe.name()), Ok(Some(ContenderState::Dead)));
    }
}
