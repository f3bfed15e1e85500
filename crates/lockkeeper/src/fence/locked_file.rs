//! A file that is replaced as a whole under its own lock.
//!
//! The lock moves with the name: the new file is locked before it takes the old one's name. A process that has waited
//! for the old one finds that it lost its name, and waits for the new one. What the file says is left to others.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, open};
use rustix::process::{Resource, getrlimit};

use crate::{Error, ErrorKind, Operation, Result};

/// How often the file may be replaced while we wait for it: once for each greater token that passes meanwhile.
const OPENINGS_MAX: u32 = 10_000;

/// Whether a change is on the disk before the call that makes it returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FlushMode {
    /// A crash of the machine loses nothing.
    Flushed,
    /// A crash of the machine may undo the last changes; that of a process undoes nothing.
    Buffered,
}

/// A file, locked (`flock`) until it is dropped.
#[derive(Debug)]
pub(super) struct LockedFile {
    path: PathBuf,
    file: File,
}

impl LockedFile {
    /// Opens the file, or makes it, and waits until no other process has it locked; this blocks the thread.
    ///
    /// # Errors
    ///
    /// It cannot be opened ([`ErrorKind::Refused`] or [`ErrorKind::Backend`]), or is not a regular file
    /// ([`ErrorKind::InvalidConfig`]).
    pub(super) fn lock(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| failure(path, "", error);
        // Where a link leads to; otherwise the link would be replaced.
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        for _ in 0..OPENINGS_MAX {
            let file = open_or_make(&real).map_err(failed)?;
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(refusal(path, ErrorKind::InvalidConfig, "it is not a regular file"));
            }
            lock_waiting(&file).map_err(failed)?;
            if is_named(&file, &real).map_err(failed)? {
                return Ok(Self { path: real, file });
            }
        }
        Err(refusal(path, ErrorKind::LimitReached, "it was replaced too often while it was waited for"))
    }

    /// Where it is: behind all links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; `None` if it is larger than this.
    pub(super) fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = (&self.file).take(bytes_max + 1).read_to_end(&mut bytes);
        read.map_err(|error| failure(&self.path, "", error))?;
        Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
    }

    /// Puts another file with this content in its place, and has that one locked from then on.
    pub(super) fn replace(&mut self, content: &[&[u8]], durability: FlushMode) -> Result<()> {
        self.try_replace(content, durability).map_err(|error| failure(&self.path, "it cannot be replaced: ", error))
    }

    fn try_replace(&mut self, content: &[&[u8]], durability: FlushMode) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".next");
        let next = self.directory().join(name);
        // Left by one that was killed: while the file is locked, only we have a use for it.
        if let Err(error) = fs::remove_file(&next)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let written = self.write(&next, content).and_then(|file| {
            fs::rename(&next, &self.path)?;
            if durability == FlushMode::Flushed {
                self.try_sync_name()?;
            }
            Ok(file)
        });
        if written.is_err() {
            let _ = fs::remove_file(&next);
        }
        self.file = written?;
        Ok(())
    }

    /// Makes sure that its name is on the disk.
    pub(super) fn sync_name(&self) -> Result<()> {
        self.try_sync_name().map_err(|error| failure(&self.path, "", error))
    }

    /// The error of what it says.
    pub(super) fn refusal(&self, kind: ErrorKind, why: &str) -> Error {
        refusal(&self.path, kind, why)
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn try_sync_name(&self) -> io::Result<()> {
        File::open(self.directory())?.sync_all()
    }

    /// Makes the file that takes the place of ours: locked, with the same owner and rights, and on the disk.
    fn write(&self, next: &Path, content: &[&[u8]]) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(open(next, flags, Mode::from_raw_mode(0o600))?);
        lock_waiting(&file)?;
        let (old, new) = (self.file.metadata()?, file.metadata()?);
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            // Only root may give a file away; a user who shares it through a group keeps the group at least.
            let group = Some(Gid::from_raw(old.gid()));
            if fchown(&file, Some(Uid::from_raw(old.uid())), group).is_err() {
                let _ = fchown(&file, None, group);
            }
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        let bytes: usize = content.iter().map(|part| part.len()).sum();
        if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes as u64) {
            // Else a signal would end this process without a word.
            let message = "this process may not write so large a file: raise the limit, ulimit -f";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        for part in content {
            file.write_all(part)?;
        }
        // Else a crash of the machine could leave the name to a file without its content.
        file.sync_all()?;
        Ok(file)
    }
}

/// The open file: it stays locked while any copy of this descriptor is open, in any process.
impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

pub(super) fn refusal(path: &Path, kind: ErrorKind, why: &str) -> Error {
    Error::permanent(kind, Operation::Configure, format!("{}: {why}", path.display()))
}

pub(super) fn failure(path: &Path, what: &str, error: io::Error) -> Error {
    let message = format!("{}: {what}{error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::permanent(ErrorKind::Refused, Operation::Configure, message),
        io::ErrorKind::StorageFull => Error::transient(ErrorKind::Backend, Operation::Configure, message),
        _ => Error::permanent(ErrorKind::Backend, Operation::Configure, message),
    }
}

/// Opens a file without waiting for what it may be, such as a named pipe.
fn open_or_make(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::from_raw_mode(0o666))?))
}

fn lock_waiting(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            // A handler ran, or the process was stopped and continued; the wait goes on.
            Err(rustix::io::Errno::INTR) => {}
            ended => return Ok(ended?),
        }
    }
}

/// Tells whether this open file still has its name.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
