//! The base directory: where it lies, whether it can carry locks, and what is made in it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Error, ErrorKind, Operation, QueueName, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::access::DirectoryAccess;
use crate::errors::{ANOTHER_DIRECTORY, errno_of, failed};
use crate::filesystem;
use crate::shared_files;

/// The directory of the queues, within the base directory.
pub(crate) const QUEUES: &str = "queues";

/// That a directory lies on a file system that cannot carry locks.
const NOT_LOCAL: Errno = Errno::OPNOTSUPP;

/// A base directory that was found fit to carry locks.
#[derive(Debug)]
pub(crate) struct Base {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// Where the queues' directories lie.
    pub(crate) queues: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Base {
    /// Takes the directory, and refuses one that is not there and cannot be made, and a file system that cannot carry
    /// locks. Nothing is made before it is used: a look leaves nothing.
    pub(crate) fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        if directory.as_os_str().is_empty() {
            let message = format!("the directory of the locks has an empty name ({ANOTHER_DIRECTORY})");
            return Err(Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message));
        }
        let path = std::path::absolute(directory)
            .map_err(|error| failed(Operation::Connect, "find", directory, errno_of(&error)))?;
        let base = Self { queues: path.join(QUEUES), path, clock };
        let stands = base.stands().map_err(|errno| {
            let what = if errno == Errno::NOTDIR { "use" } else { "make the directory" };
            failed(Operation::Connect, what, &base.path, errno)
        })?;
        filesystem::require_local(stands)?;
        Ok(base)
    }

    /// Finds the directory, or the one above it in which it can be made.
    fn stands(&self) -> Result<&Path, Errno> {
        match rustix::fs::stat(&self.path) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_dir() => return Ok(&self.path),
            Ok(_) => return Err(Errno::NOTDIR),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let above = self.path.ancestors().skip(1).find(|above| rustix::fs::stat(*above).is_ok()).ok_or(Errno::NOENT)?;
        let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(CWD, above, rights, AtFlags::EACCESS).map(|()| above)
    }

    /// Makes the directory, open to its owner alone, if it is missing.
    fn make(&self) -> Result<(), (Errno, PathBuf)> {
        match rustix::fs::stat(&self.path) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_dir() => return Ok(()),
            Ok(_) => return Err((Errno::NOTDIR, self.path.clone())),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err((errno, self.path.clone())),
        }
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent).map_err(|error| (errno_of(&error), parent.to_owned()))?;
        }
        match rustix::fs::mkdir(&self.path, Mode::RWXU) {
            Err(Errno::EXIST) => self.require_meant(),
            made => made,
        }
        .map_err(|errno| (errno, self.path.clone()))
    }

    /// Refuses what another user has put there just now, in a place that every user may write.
    fn require_meant(&self) -> Result<(), Errno> {
        let is_theirs = rustix::fs::lstat(&self.path)?.st_uid != rustix::process::geteuid().as_raw();
        let above = rustix::fs::stat(self.path.parent().unwrap_or(&self.path))?;
        let is_open = Mode::from_raw_mode(above.st_mode).contains(Mode::WOTH);
        if is_theirs && is_open { Err(Errno::PERM) } else { Ok(()) }
    }

    /// Opens a file of the base directory that all participants share, and makes it if it is missing.
    pub(crate) fn open_shared_file(&self, name: &str) -> Result<OwnedFd> {
        self.make().map_err(|(errno, missing)| failed(Operation::Join, "make the directory", &missing, errno))?;
        let opened =
            self.open_directory().and_then(|(directory, access)| shared_files::open_or_make(&directory, name, &access));
        opened.map_err(|errno| match errno {
            NOT_LOCAL => self.not_local(),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => self.not_writable(name, errno),
            errno => failed(Operation::Connect, "open", &self.path.join(name), errno),
        })
    }

    /// Makes the directory of the queues, and those above it, if they are missing.
    fn make_queues(&self) -> Result<DirectoryAccess, Errno> {
        self.make().map_err(|(errno, _)| errno)?;
        let (_, access) = self.open_directory()?;
        shared_files::make_directory(&self.path, QUEUES, &access)?;
        Ok(access)
    }

    /// Makes the directory of a lock, and those above it, if they are missing.
    pub(crate) fn make_queue(&self, encoded: &str) -> Result<(), Errno> {
        let access = self.make_queues()?;
        shared_files::make_directory(&self.queues, encoded, &access)
    }

    /// Puts a lock's directory, and the way to it, on the disk.
    pub(crate) fn flush_queue(&self, directory: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fsync(directory)?;
        rustix::fs::fsync(shared_files::open_directory(&self.queues)?)?;
        rustix::fs::fsync(self.open_directory()?.0)
    }

    /// Returns where the directory of a queue's lock lies.
    pub(crate) fn queue_path(&self, queue: &QueueName) -> PathBuf {
        self.queues.join(queue.encoded())
    }

    /// Removes what was being prepared in the base directory by processes that died meanwhile.
    pub(crate) fn tidy(&self) {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            shared_files::remove_temporary(&self.path, &name);
        }
    }

    /// Puts the directory's entries on the disk.
    pub(crate) fn flush_directory(&self) -> Result<()> {
        let flushed = self.open_directory().and_then(|(directory, _)| rustix::fs::fsync(directory));
        flushed.map_err(|errno| failed(Operation::Join, "flush the directory", &self.path, errno))
    }

    /// Opens the directory that the path leads to now, which may be another one than it was: so its file system is
    /// looked at each time.
    fn open_directory(&self) -> Result<(OwnedFd, DirectoryAccess), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&self.path, flags, Mode::empty())?;
        if !filesystem::is_local(&directory)? {
            return Err(NOT_LOCAL);
        }
        let access = DirectoryAccess::within(&directory)?;
        Ok((directory, access))
    }

    /// Says why the directory cannot carry locks.
    fn not_local(&self) -> Error {
        // Unless it was replaced once more since, in which case the errno is all there is.
        let refused = filesystem::require_local(&self.path).err();
        refused.unwrap_or_else(|| failed(Operation::Connect, "lock anything in", &self.path, NOT_LOCAL))
    }

    fn not_writable(&self, name: &str, errno: Errno) -> Error {
        let message = format!(
            "user {} may not write {} in {}, so it cannot take part in the locks there: let its group write this \
             directory, or use a separate one ({ANOTHER_DIRECTORY})",
            rustix::process::geteuid().as_raw(),
            name,
            self.path.display()
        );
        Error::permanent(ErrorKind::Refused, Operation::Connect, message).caused_by(std::io::Error::from(errno))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use lockkeeper_core::clock::SystemClock;

    use super::*;

    #[test]
    fn a_missing_directory_is_made_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let base = Base::open(&path, Arc::new(SystemClock)).unwrap();
        assert!(!path.parent().unwrap().exists(), "it is made once it is used");
        base.make_queue("q").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_directory_that_was_replaced_by_one_on_another_file_system_is_refused_when_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base");
        fs::create_dir(&path).unwrap();
        let base = Base::open(&path, Arc::new(SystemClock)).unwrap();
        fs::rename(&path, directory.path().join("old")).unwrap();
        std::os::unix::fs::symlink("/proc/self", &path).unwrap();
        let error = base.open_shared_file("counter").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:#}");
        assert!(error.to_string().contains("of type proc"), "{error:#}");
        assert_eq!(base.make_queue("q"), Err(NOT_LOCAL));
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Base::open(&path, Arc::new(SystemClock)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(format!("{error:#}").contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_group_s_directory_makes_queues_that_the_whole_group_can_enter_with_any_umask() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o775)).unwrap();
        let base = Base::open(directory.path(), Arc::new(SystemClock)).unwrap();
        base.make_queue("q").unwrap();
        base.open_shared_file("counter").unwrap();
        let mode = |path: &str| fs::metadata(directory.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("queues"), mode("queues/q"), mode("counter")), (0o2775, 0o2775, 0o660));
        assert_eq!(fs::read_dir(&base.queues).unwrap().count(), 1, "a temporary name was left");
    }
}
