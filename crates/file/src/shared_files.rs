//! Files that several processes, and perhaps several users, make and lock together: their flocks, making them so that
//! they are open to all who take part from the first moment, and removing what was only half made. Who takes part is in
//! `access`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::Ticket;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::access::{DirectoryAccess, MadeKind};

/// The prefix of names that are being prepared and that other processes ignore.
pub(crate) const TEMPORARY_PREFIX: &str = ".new-";

/// How often a file that others make and delete at the same time is tried.
const TRIES_MAX: u32 = 64;

/// How often a lock that another opening holds is tried before the call is handed to a thread that may wait: the others
/// hold it for the time of a few system calls.
const LOCK_TRIES: u32 = 4;

/// Whether a call may wait for other processes or for the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience<'a> {
    /// It may not: it runs on a thread of the runtime.
    Now,
    /// It may, and notes while it waits for another process.
    Unbounded(&'a HeldUp),
}

/// Whether a thread waits for a flock of another process, which may be stopped and keep it without end.
#[derive(Debug, Default)]
pub(crate) struct HeldUp {
    /// Odd while it waits; each wait has a separate number.
    waits: AtomicU64,
}

impl HeldUp {
    /// Tells whether it waits now.
    pub(crate) fn is_so(&self) -> bool {
        self.number().is_some()
    }

    /// Returns the number of the wait that it is in.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.waits.load(Ordering::Acquire)).filter(|waits| waits % 2 == 1)
    }

    fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waits.fetch_add(1, Ordering::AcqRel);
        let outcome = wait();
        self.waits.fetch_add(1, Ordering::AcqRel);
        outcome
    }
}

/// Opens a file for reading and writing, and makes it empty if it is missing.
pub(crate) fn open_or_make(directory: &OwnedFd, name: &str, access: &DirectoryAccess) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..TRIES_MAX {
        match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            outcome => return outcome,
        }
        if access.is_shared {
            make_shared(directory, name, access)?;
        } else {
            match rustix::fs::openat(directory, name, flags | OFlags::CREATE, access.mode_of_new(MadeKind::File)) {
                Err(Errno::NOENT | Errno::EXIST) => {}
                outcome => return outcome,
            }
        }
    }
    Err(Errno::NOENT)
}

/// Makes an empty file under another name and links it in when its mode is right, independent of the umask.
fn make_shared(directory: &OwnedFd, name: &str, access: &DirectoryAccess) -> Result<(), Errno> {
    let temporary = temporary_name()?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::openat(directory, &temporary, flags, access.mode_of_new(MadeKind::File))?;
    let linked = access
        .open_up(&file, MadeKind::File)
        .and_then(|()| rustix::fs::linkat(directory, &temporary, directory, name, AtFlags::empty()));
    made(linked, rustix::fs::unlinkat(directory, &temporary, AtFlags::empty()))
}

/// Tells whether a file is there, after it was linked in and its temporary name removed.
fn made(linked: Result<(), Errno>, unlinked: Result<(), Errno>) -> Result<(), Errno> {
    match (linked, unlinked) {
        // Another process was quicker, or tidied up our temporary name, before the link or after it.
        (Err(Errno::EXIST | Errno::NOENT), _) | (Ok(()), Err(Errno::NOENT)) => Ok(()),
        (Ok(()), unlinked) => unlinked,
        (Err(errno), _) => Err(errno),
    }
}

/// What a newly written file has outlived before the call returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileDurability {
    /// The writer.
    Process,
    /// The machine: its bytes are on the disk. Its name is not yet.
    Disk,
}

/// Writes a file under a temporary name and moves it to its own, in place of what was there: it is seen whole or not at
/// all. Returns the file, open for reading and writing.
///
/// Fails with `NOENT` if the directory was removed, or if a process that holds its flock tidied the temporary name up.
pub(crate) fn replace(
    directory: &OwnedFd,
    name: &str,
    content: &[u8],
    access: &DirectoryAccess,
    durability: FileDurability,
) -> Result<OwnedFd, Errno> {
    let temporary = temporary_name()?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(directory, &temporary, flags, access.mode_of_new(MadeKind::Note))?;
    let replaced = access
        .open_up(&file, MadeKind::Note)
        .and_then(|()| write_all(&file, content))
        .and_then(|()| if durability == FileDurability::Disk { rustix::fs::fsync(&file) } else { Ok(()) })
        .and_then(|()| rustix::fs::renameat(directory, &temporary, directory, name));
    match replaced {
        Ok(()) => Ok(file),
        Err(errno) => {
            // If this fails too, the next who enters the queue removes it.
            let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
            Err(errno)
        }
    }
}

/// Fails with `FBIG` if this process may not write a file of so many bytes: a signal would end it without a word.
pub(crate) fn require_room(bytes: usize) -> Result<(), Errno> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < bytes as u64 => Err(Errno::FBIG),
        _ => Ok(()),
    }
}

fn write_all(file: &OwnedFd, mut content: &[u8]) -> Result<(), Errno> {
    require_room(content.len())?;
    while !content.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(file, content))? {
            0 => return Err(Errno::NOSPC),
            written => content = &content[written..],
        }
    }
    Ok(())
}

/// Reads a file whole; `None` if there is none, `FBIG` if it has more than `bytes_max` bytes.
pub(crate) fn read(directory: impl AsFd, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => file?,
    };
    let mut content = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer))? {
            0 => return Ok(Some(content)),
            length => content.extend_from_slice(&buffer[..length]),
        }
        if content.len() > bytes_max {
            return Err(Errno::FBIG);
        }
    }
}

/// Makes a directory if it is missing, with its mode right from the first moment that it has its name.
pub(crate) fn make_directory(above: &Path, name: &str, access: &DirectoryAccess) -> Result<(), Errno> {
    let path = above.join(name);
    if access.is_private() {
        return match rustix::fs::mkdir(&path, access.mode_of_new(MadeKind::Directory)) {
            Err(Errno::EXIST) => Ok(()),
            outcome => outcome,
        };
    }
    if rustix::fs::lstat(&path).is_ok() {
        return Ok(());
    }
    let temporary = above.join(temporary_name()?);
    rustix::fs::mkdir(&temporary, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Renaming over an existing directory succeeds only if that one is empty: then it was not entered yet.
    let made = rustix::fs::open(&temporary, flags, Mode::empty())
        .and_then(|directory| access.open_up(&directory, MadeKind::Directory))
        .and_then(|()| rustix::fs::rename(&temporary, &path));
    match made {
        Ok(()) => Ok(()),
        Err(errno) => {
            // What is left of it is empty and does no harm.
            let _ = rustix::fs::rmdir(&temporary);
            if matches!(errno, Errno::EXIST | Errno::NOTEMPTY) { Ok(()) } else { Err(errno) }
        }
    }
}

/// Mints a name that is not used elsewhere.
pub(crate) fn temporary_name() -> Result<String, Errno> {
    Ticket::mint().map(|ticket| format!("{TEMPORARY_PREFIX}{ticket}")).map_err(|_| Errno::IO)
}

/// Tells whether a name is one that [`temporary_name`] mints. Others that begin so are not ours: the directory may be
/// one that its user has other files in.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX).is_some_and(|ticket| Ticket::parse(ticket).is_some())
}

/// Removes something that was being prepared beside the locks. If its maker is alive it makes another one.
pub(crate) fn remove_temporary(above: &Path, name: &str) {
    if is_temporary(name) {
        let path = above.join(name);
        // A directory that is not empty is not one that was being prepared.
        let _ = rustix::fs::unlink(&path).or_else(|_| rustix::fs::unlinkat(CWD, &path, AtFlags::REMOVEDIR));
    }
}

/// Takes an exclusive flock; `false` if another opening holds it and `patience` does not allow waiting.
pub(crate) fn lock(file: &OwnedFd, patience: Patience<'_>) -> Result<bool, Errno> {
    for attempt in 1..=LOCK_TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) if attempt < LOCK_TRIES => std::thread::yield_now(),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    match patience {
        Patience::Now => Ok(false),
        Patience::Unbounded(held_up) => held_up.during(|| {
            rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockExclusive)).map(|()| true)
        }),
    }
}

/// Gives a flock back.
pub(crate) fn unlock(file: &OwnedFd) {
    let outcome = rustix::fs::flock(file, FlockOperation::Unlock);
    debug_assert!(outcome.is_ok(), "an unlock does not wait and has nothing to refuse: {outcome:?}");
}

/// What tells a file from all others while it is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) const fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Tells whether a path, which may lead elsewhere by now, leads to an open file. If we may not look along the path, the
/// answer is yes while the file has a name.
pub(crate) fn leads_to(path: &Path, file: impl AsFd) -> Result<bool, Errno> {
    let ours = rustix::fs::fstat(&file)?;
    leads_to_this(path, FileIdentity::of(&ours), file)
}

/// As [`leads_to`], for a caller that knows what the open file is: one system call less.
pub(crate) fn leads_to_this(path: &Path, ours: FileIdentity, file: impl AsFd) -> Result<bool, Errno> {
    match rustix::fs::lstat(path) {
        Ok(found) => Ok(FileIdentity::of(&found) == ours),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
        Err(Errno::ACCESS) => Ok(rustix::fs::fstat(file)?.st_nlink > 0),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory that must not be a symbolic link.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// Reads a time of the file system, since 1970.
pub(crate) fn since_unix(seconds: i64, nanos: impl TryInto<u32>) -> Option<Duration> {
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_temporary_name_another_process_removed_is_made_all_the_same() {
        assert_eq!(made(Ok(()), Err(Errno::NOENT)), Ok(()));
        assert_eq!(made(Err(Errno::NOENT), Err(Errno::NOENT)), Ok(()), "it is tried again");
        assert_eq!(made(Ok(()), Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(made(Err(Errno::NOSPC), Ok(())), Err(Errno::NOSPC));
    }

    #[test]
    fn only_a_name_that_ends_in_a_ticket_is_taken_for_a_temporary_one() {
        assert!(is_temporary(&temporary_name().unwrap()));
        for other in [".new-config", ".new-", ".new-0", ".newer", &format!("{}.txt", temporary_name().unwrap())] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn a_lock_that_is_held_is_not_waited_for_by_a_call_that_may_not() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open_directory(directory.path()).unwrap();
        let access = DirectoryAccess::within(&opened).unwrap();
        let [ours, theirs] = [(); 2].map(|()| open_or_make(&opened, "x", &access).unwrap());
        assert_eq!(lock(&theirs, Patience::Now), Ok(true));
        assert_eq!(lock(&ours, Patience::Now), Ok(false));
        unlock(&theirs);
        assert_eq!(lock(&ours, Patience::Now), Ok(true));
    }
}
