//! A file of tokens, while this process has it locked.
//!
//! The file is replaced under its own lock, and the lock moves with it: the new file is locked before it takes the old
//! one's name. A process that has waited for the old one finds that it lost its name, and waits for the new one.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, open};

use super::greatest::{FILE_BYTES_MAX, Greatest, Key, Verdict};
use crate::fence::Seen;
use crate::{Error, ErrorKind, FencingToken, Operation, QueueName, Result};

/// How often the file may be replaced while we wait for it: once for each greater token that passes meanwhile.
const OPENINGS_MAX: u32 = 10_000;

/// A file with the greatest token seen of each lock, locked (`flock`) until it is dropped.
///
/// It is a text with a line for each lock, in the form of a [`TokenHeader`](crate::fence::TokenHeader), and at most
/// 1,000 lines. `lockkeeper fence FILE -- CMD` keeps its tokens in one. It lies on a file system of this machine, in a
/// directory that its users may write to, since it is replaced when a greater token comes.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    file: File,
}

impl TokenFile {
    /// Opens the file, or makes it, and waits until no other process has it locked; this blocks the thread.
    ///
    /// # Errors
    ///
    /// It cannot be opened ([`ErrorKind::Refused`] or [`ErrorKind::Backend`]), or is not a regular file
    /// ([`ErrorKind::InvalidConfig`]).
    pub fn lock(path: &Path) -> Result<Self> {
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

    /// Compares a token with the greatest of its lock, and keeps a greater one on the disk before it returns. Tokens
    /// that come without a lock's name are compared among themselves.
    ///
    /// # Errors
    ///
    /// It is not a file of tokens, and is left as it is ([`ErrorKind::InvalidConfig`]); it has 1,000 locks already
    /// ([`ErrorKind::LimitReached`]); or it cannot be read or replaced.
    pub fn see(&mut self, name: Option<&QueueName>, token: FencingToken) -> Result<Seen> {
        let text = self.read().map_err(|error| failure(&self.path, "", error))?;
        let Some(mut greatest) = text.as_deref().and_then(Greatest::parse) else {
            let why = "it is not the file of a fence, and was left as it is";
            return Err(refusal(&self.path, ErrorKind::InvalidConfig, why));
        };
        match greatest.see(&Key::new(name), token) {
            Verdict::Seen => {
                // The process that kept it may have been killed before the new name was on the disk.
                self.sync_name().map_err(|error| failure(&self.path, "", error))?;
                Ok(Seen::Passes)
            }
            Verdict::Stale(greatest) => Ok(Seen::Stale(greatest)),
            Verdict::Full => Err(refusal(&self.path, ErrorKind::LimitReached, "it has tokens of too many locks")),
            Verdict::Raised => {
                let replaced = self.replace(&greatest.to_string());
                replaced.map_err(|error| failure(&self.path, "it cannot be replaced: ", error))?;
                Ok(Seen::Passes)
            }
        }
    }

    /// Reads it; `None` if it is too large, or no text.
    fn read(&self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        (&self.file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        let is_too_large = bytes.len() as u64 > FILE_BYTES_MAX;
        Ok(if is_too_large { None } else { String::from_utf8(bytes).ok() })
    }

    /// Puts another file in its place, durably, and has that one locked from then on.
    fn replace(&mut self, text: &str) -> io::Result<()> {
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
        let written = self.write(&next, text).and_then(|file| {
            fs::rename(&next, &self.path)?;
            self.sync_name()?;
            Ok(file)
        });
        if written.is_err() {
            let _ = fs::remove_file(&next);
        }
        self.file = written?;
        Ok(())
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn sync_name(&self) -> io::Result<()> {
        File::open(self.directory())?.sync_all()
    }

    /// Makes the file that takes the place of ours: locked, with the same owner and rights, and on the disk.
    fn write(&self, next: &Path, text: &str) -> io::Result<File> {
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
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(file)
    }
}

/// The open file: it stays locked while any copy of this descriptor is open, in any process.
impl AsFd for TokenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn refusal(path: &Path, kind: ErrorKind, why: &str) -> Error {
    Error::permanent(kind, Operation::Configure, format!("{}: {why}", path.display()))
}

fn failure(path: &Path, what: &str, error: io::Error) -> Error {
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
