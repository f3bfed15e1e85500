//! The file of a fence, while this process has it locked.
//!
//! The file is replaced under its own lock, and the lock moves with it: the new file is locked before it takes the old
//! one's name. A process that has waited for the old one finds that it lost its name, and waits for the new one.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lockkeeper::FencingToken;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, open};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::greatest::{FILE_BYTES_MAX, Greatest, Key, Verdict};
use crate::exit::Failure;

/// How often the file may be replaced while we wait for it: once for each greater token that passes meanwhile.
const OPENINGS_MAX: u32 = 10_000;

/// The least number of the descriptor that the command keeps the file locked with: scripts use smaller ones.
const COMMAND_FD_MIN: i32 = 64;

/// The file, locked.
#[derive(Debug)]
pub(crate) struct FenceFile {
    path: PathBuf,
    file: File,
}

impl FenceFile {
    /// Opens the file, or makes it, and waits until no other process has it locked.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is not a regular file.
    pub(crate) fn lock(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::ours(format!("{}: {error}", path.display()));
        // Where a link leads to; otherwise the link would be replaced.
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        for _ in 0..OPENINGS_MAX {
            let file = open_or_make(&real).map_err(failed)?;
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(Failure::ours(format!("{}: it is not a regular file", path.display())));
            }
            lock_waiting(&file).map_err(failed)?;
            if is_named(&file, &real).map_err(failed)? {
                return Ok(Self { path: real, file });
            }
        }
        Err(Failure::ours(format!("{}: it was replaced {OPENINGS_MAX} times while it was waited for", path.display())))
    }

    /// Compares a token with the greatest of its lock, and keeps a greater one on the disk before it returns. A token
    /// that is stale is answered with the greatest.
    ///
    /// # Errors
    ///
    /// The file is not the file of a fence, and is left as it is; or it cannot be read or replaced.
    pub(crate) fn see(&mut self, key: &Key, token: FencingToken) -> Result<Result<(), FencingToken>, Failure> {
        let path = self.path.display().to_string();
        let text = self.read().map_err(|error| Failure::ours(format!("{path}: {error}")))?;
        let Some(mut greatest) = text.as_deref().and_then(Greatest::parse) else {
            return Err(Failure::ours(format!("{path}: it is not the file of a fence, and was left as it is")));
        };
        match greatest.see(key, token) {
            Verdict::Seen => Ok(Ok(())),
            Verdict::Stale(greatest) => Ok(Err(greatest)),
            Verdict::Full => Err(Failure::ours(format!("{path}: it has tokens of too many locks"))),
            Verdict::Raised => {
                let replaced = self.replace(&greatest.to_string());
                replaced.map_err(|error| Failure::ours(format!("{path}: it cannot be replaced: {error}")))?;
                Ok(Ok(()))
            }
        }
    }

    /// Returns a descriptor that this process's next program inherits: the file stays locked while any process has it.
    ///
    /// # Errors
    ///
    /// Too many open files.
    pub(crate) fn pass_on(self) -> Result<OwnedFd, Failure> {
        let passed = fcntl_dupfd_cloexec(&self.file, COMMAND_FD_MIN).and_then(|descriptor| {
            fcntl_setfd(&descriptor, FdFlags::empty())?;
            Ok(descriptor)
        });
        passed.map_err(|error| Failure::ours(format!("{}: {error}", self.path.display())))
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
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".next");
        let next = directory.join(name);
        // Left by one that was killed: while the file is locked, only we have a use for it.
        if let Err(error) = fs::remove_file(&next)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let written = self.write(&next, text).and_then(|file| {
            fs::rename(&next, &self.path)?;
            File::open(directory)?.sync_all()?;
            Ok(file)
        });
        if written.is_err() {
            let _ = fs::remove_file(&next);
        }
        self.file = written?;
        Ok(())
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
