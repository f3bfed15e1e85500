//! The files of a data directory, and the lock on it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::storage::error::StorageError;

const LOCK_NAME: &str = "lock";
const LOG_PREFIX: &str = "log.";
const SNAPSHOT_PREFIX: &str = "snapshot.";
/// The end of the name of a file that is not yet whole.
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// A locked data directory. The lock ends with it, or with the process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// The files of a directory, each kind in order of the transaction it begins after.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Files {
    pub(super) snapshots: Vec<(i64, PathBuf)>,
    pub(super) logs: Vec<(i64, PathBuf)>,
}

impl Directory {
    /// Creates the directory if it does not exist, and locks it.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created, or another server has it.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        fs::create_dir_all(path).map_err(|error| StorageError::io(path, error))?;
        let lock_path = path.join(LOCK_NAME);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| StorageError::io(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse { directory: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StorageError::io(&lock_path, error)),
        }
    }

    pub(super) fn log_path(&self, zxid: i64) -> PathBuf {
        self.path.join(format!("{LOG_PREFIX}{zxid:016x}"))
    }

    pub(super) fn snapshot_path(&self, zxid: i64) -> PathBuf {
        self.path.join(format!("{SNAPSHOT_PREFIX}{zxid:016x}"))
    }

    /// The name a file has until it is whole.
    pub(super) fn unfinished(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(UNFINISHED_SUFFIX);
        name.into()
    }

    /// Gives a whole file its name, for good.
    ///
    /// # Errors
    ///
    /// Fails if the system does.
    pub(super) fn finish(&self, path: &Path) -> io::Result<()> {
        fs::rename(Self::unfinished(path), path)?;
        self.flush()
    }

    /// Has the names of files flushed.
    ///
    /// # Errors
    ///
    /// Fails if the system does.
    pub(super) fn flush(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// The files there are. Others, unfinished ones too, are not looked at.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    pub(super) fn files(&self) -> Result<Files, StorageError> {
        let failed = |error| StorageError::io(&self.path, error);
        let mut files = Files::default();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if let Some(zxid) = zxid_in(name, LOG_PREFIX) {
                files.logs.push((zxid, path));
            } else if let Some(zxid) = zxid_in(name, SNAPSHOT_PREFIX) {
                files.snapshots.push((zxid, path));
            }
        }
        files.snapshots.sort();
        files.logs.sort();
        Ok(files)
    }

    /// Removes what the snapshot and log that begin at `zxid` have made superfluous. What cannot be removed is left; it
    /// is older and does no harm.
    pub(super) fn remove_before(&self, zxid: i64) {
        let Ok(files) = self.files() else {
            return;
        };
        let all = files.snapshots.into_iter().chain(files.logs);
        for (_, path) in all.filter(|(begin, _)| *begin < zxid) {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "an old file could not be removed");
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn zxid_in(name: &str, prefix: &str) -> Option<i64> {
    let digits = name.strip_prefix(prefix)?;
    (digits.len() == 16).then(|| i64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Directory::open(folder.path()).unwrap();
        assert!(matches!(Directory::open(folder.path()), Err(StorageError::InUse { .. })));
        drop(first);
        Directory::open(folder.path()).unwrap();
    }

    #[test]
    fn files_are_told_by_their_names_and_foreign_ones_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let paths = [directory.log_path(16), directory.log_path(2), directory.snapshot_path(2)];
        for path in paths.iter().chain([&folder.path().join("log.note"), &Directory::unfinished(&paths[2])]) {
            fs::write(path, "").unwrap();
        }
        let files = directory.files().unwrap();
        assert_eq!(files.logs, [(2, paths[1].clone()), (16, paths[0].clone())]);
        assert_eq!(files.snapshots, [(2, paths[2].clone())]);
        directory.remove_before(16);
        let files = directory.files().unwrap();
        assert_eq!((files.logs.len(), files.snapshots.len()), (1, 0));
        assert!(folder.path().join("log.note").exists());
    }
}
