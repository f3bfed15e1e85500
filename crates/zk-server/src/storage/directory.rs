//! The files of a data directory, the lock on it, and the rights: the user that runs the server reads it and no other,
//! since a snapshot has the secret that every session's password is made from.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::storage::error::StorageError;

const LOCK_NAME: &str = "lock";
const LOG_PREFIX: &str = "log.";
const SNAPSHOT_PREFIX: &str = "snapshot.";
/// How many hexadecimal digits the number in a name has.
const ZXID_DIGITS: usize = 16;
/// The end of the name of a file that is not yet whole.
const UNFINISHED_SUFFIX: &str = ".unfinished";
/// The end of the name of a file of before the newest snapshot.
const PREVIOUS_SUFFIX: &str = ".previous";
/// The end of the name of a damaged log that the operator lets be read as far as it is whole.
const INCOMPLETE_SUFFIX: &str = ".incomplete";
/// What the system puts into the root of a file system.
const LOST_AND_FOUND: &str = "lost+found";

/// A locked data directory. The lock ends with it, or with the process.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

/// The files of a directory, each kind in order of the transaction it begins after.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Files {
    pub(super) snapshots: Vec<(i64, PathBuf)>,
    pub(super) logs: Vec<(i64, PathBuf)>,
    /// Logs that may be damaged.
    pub(super) incomplete: Vec<(i64, PathBuf)>,
    /// What the newest snapshot has made superfluous.
    pub(super) previous: Vec<(i64, PathBuf)>,
    unfinished: Vec<(i64, PathBuf)>,
}

/// A directory as it was at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stamp {
    identity: (u64, u64),
    changed: (i64, i64),
}

impl DataDirectory {
    /// Creates the directory if it does not exist, and locks it. Other users lose the rights that they have on it.
    /// Fails if it cannot be created, has data of another product, or another server has it.
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        create_directory(path).map_err(|error| StorageError::io(path, error))?;
        if let Some(found) = apaches_data_in(path).map_err(|error| StorageError::io(path, error))? {
            return Err(StorageError::Apache { path: found });
        }
        let lock_path = path.join(LOCK_NAME);
        let lock = open_file(&lock_path).map_err(|error| StorageError::io(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {
                let directory = Self { path: path.to_owned(), _lock: lock };
                directory.narrow_rights()?;
                Ok(directory)
            }
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse { directory: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StorageError::io(&lock_path, error)),
        }
    }

    /// Takes the rights of other users, and warns if they had any. A directory that others' files lie in is left as it
    /// is: it may be one that all users need.
    fn narrow_rights(&self) -> Result<(), StorageError> {
        let failed = |error| StorageError::io(&self.path, error);
        let (mut own, mut is_shared) = (Vec::new(), false);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.file_name().to_str() {
                Some(name) if is_own(name) => own.push(entry.path()),
                Some(LOST_AND_FOUND) => (),
                _ => is_shared = true,
            }
        }
        let directory = self.path.display();
        if is_shared {
            tracing::warn!("{directory} has files that are not this server's: name a directory for it alone");
        } else {
            own.push(self.path.clone());
        }
        let mut narrowed = 0;
        for path in own {
            match narrow(&path) {
                Ok(found) => narrowed += u32::from(found.is_some()),
                Err(error) => {
                    tracing::warn!("other users have rights on {}, which cannot be taken: {error}", path.display());
                }
            }
        }
        if narrowed > 0 {
            tracing::warn!(
                "other users had rights on {directory}, {narrowed} of the directory and its files: they are taken now; \
                 if other users can log in here, assume that they have read it"
            );
        }
        Ok(())
    }

    pub(super) fn log_path(&self, zxid: i64) -> PathBuf {
        self.path.join(format!("{LOG_PREFIX}{zxid:016x}"))
    }

    pub(super) fn snapshot_path(&self, zxid: i64) -> PathBuf {
        self.path.join(format!("{SNAPSHOT_PREFIX}{zxid:016x}"))
    }

    /// The name a file has until it is whole.
    pub(super) fn unfinished(path: &Path) -> PathBuf {
        with_suffix(path, UNFINISHED_SUFFIX)
    }

    /// The name under which a damaged log is read as far as it is whole.
    pub(super) fn incomplete(path: &Path) -> PathBuf {
        with_suffix(path, INCOMPLETE_SUFFIX)
    }

    /// Gives a whole file its name, for good.
    pub(super) fn finish(&self, path: &Path) -> io::Result<()> {
        fs::rename(Self::unfinished(path), path)?;
        self.flush()
    }

    /// Has the names of files flushed.
    pub(super) fn flush(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// The files there are. Those of other names are not looked at.
    pub(super) fn files(&self) -> Result<Files, StorageError> {
        let failed = |error| StorageError::io(&self.path, error);
        let mut files = Files::default();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some((kind, zxid, suffix)) = path.file_name().and_then(|name| parts_of(name.to_str()?)) else {
                continue;
            };
            let list = match (kind, suffix) {
                (LOG_PREFIX, "") => &mut files.logs,
                (SNAPSHOT_PREFIX, "") => &mut files.snapshots,
                (LOG_PREFIX, INCOMPLETE_SUFFIX) => &mut files.incomplete,
                (_, PREVIOUS_SUFFIX) => &mut files.previous,
                (_, UNFINISHED_SUFFIX) => &mut files.unfinished,
                _ => continue,
            };
            list.push((zxid, path));
        }
        for list in [&mut files.snapshots, &mut files.logs, &mut files.incomplete, &mut files.previous] {
            list.sort();
        }
        Ok(files)
    }

    /// Keeps the snapshot before that of `zxid`, and the logs after it, under names that are not read, and removes what
    /// is older, by `remove`. What cannot be renamed or removed is left; it is older and does no harm.
    pub(super) fn supersede(&self, zxid: i64, remove: impl Fn(&Path) -> io::Result<()>) {
        let Ok(files) = self.files() else {
            return;
        };
        let Some((kept, _)) = files.snapshots.iter().rev().find(|(begin, _)| *begin < zxid).cloned() else {
            return;
        };
        let superseded = files.snapshots.into_iter().chain(files.logs).filter(|(begin, _)| *begin < zxid);
        let (previous, older): (Vec<_>, Vec<_>) = superseded.partition(|(begin, _)| *begin >= kept);
        let failed = |path: &Path, error: io::Error| {
            tracing::warn!(path = %path.display(), %error, "an old file could not be renamed or removed");
        };
        for (_, path) in previous {
            if let Err(error) = fs::rename(&path, with_suffix(&path, PREVIOUS_SUFFIX)) {
                failed(&path, error);
            }
        }
        let left_over = files.previous.into_iter().chain(files.unfinished).filter(|(begin, _)| *begin < kept);
        for (_, path) in older.into_iter().chain(left_over) {
            if let Err(error) = remove(&path) {
                failed(&path, error);
            }
        }
    }

    /// What changes when a file of the directory is removed or made, and when another directory takes its place. `None`
    /// if there is none.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let there = fs::metadata(&self.path).ok()?;
        Some(Stamp { identity: (there.dev(), there.ino()), changed: (there.mtime(), there.mtime_nsec()) })
    }
}

/// Whether a file of this name is the server's.
fn is_own(name: &str) -> bool {
    name == LOCK_NAME || parts_of(name).is_some()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What the name of a snapshot or log consists of: its prefix, its transaction and its suffix, which may be empty.
fn parts_of(name: &str) -> Option<(&'static str, i64, &'static str)> {
    let prefix = [LOG_PREFIX, SNAPSHOT_PREFIX].into_iter().find(|prefix| name.starts_with(prefix))?;
    let (digits, rest) = name[prefix.len()..].split_at_checked(ZXID_DIGITS)?;
    let suffixes = ["", UNFINISHED_SUFFIX, PREVIOUS_SUFFIX, INCOMPLETE_SUFFIX];
    let suffix = suffixes.into_iter().find(|suffix| *suffix == rest)?;
    Some((prefix, i64::from_str_radix(digits, 16).ok()?, suffix))
}

/// The directory in which Apache ZooKeeper has its files, below its data directory.
const BELOW: &str = "version-2";
/// Files that only its directory below has.
const EPOCH_NAMES: [&str; 2] = ["acceptedEpoch", "currentEpoch"];

/// Looks for data of Apache ZooKeeper in a directory; returns the first of it.
fn apaches_data_in(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_apaches) {
            found.push(path);
        }
    }
    Ok(found.into_iter().min())
}

/// Its snapshots and logs begin as ours do. A number in hexadecimal follows: without leading zeros, while ours has 16
/// digits.
fn is_apaches(name: &str) -> bool {
    let number = [LOG_PREFIX, SNAPSHOT_PREFIX].iter().find_map(|prefix| name.strip_prefix(prefix));
    let is_numbered = number.is_some_and(|number| {
        let is_hexadecimal = number.bytes().all(|byte| byte.is_ascii_hexdigit());
        (1..ZXID_DIGITS).contains(&number.len()) && is_hexadecimal
    });
    name == BELOW || EPOCH_NAMES.contains(&name) || is_numbered
}

/// The rights of a data directory: all for its user, none for others.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The rights that other users have, of a file's mode.
const OTHERS_MASK: u32 = 0o077;

/// Creates a directory for its user alone if it does not exist. Those above it are created with the usual rights.
fn create_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Creates a file for its user alone, or empties the one there is.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(true).write(true).mode(FILE_MODE).open(path)
}

/// Opens a file for writing, or creates it for its user alone.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)
}

/// Takes the rights that other users have on a file or directory; returns the mode that it had if they had any.
/// Fails if they cannot be taken, as for a file of another user.
fn narrow(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS_MASK == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_MASK))?;
    Ok(Some(mode & 0o777))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn other_users_have_no_rights_on_a_new_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("above").join("data");
        let directory = DataDirectory::open(&path).unwrap();
        assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));
        create_file(&directory.log_path(1)).unwrap();
        assert_eq!(mode(&directory.log_path(1)), 0o600);
    }

    #[test]
    fn the_rights_of_other_users_are_taken_from_a_directory_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join("lost+found")).unwrap();
        let names =
            ["lock", "log.0000000000000001", "snapshot.0000000000000001", "snapshot.0000000000000002.unfinished"];
        for name in names {
            fs::write(path.join(name), "").unwrap();
            fs::set_permissions(path.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        DataDirectory::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        for name in names {
            assert_eq!(mode(&path.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn a_directory_with_the_files_of_others_keeps_its_rights_and_they_keep_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let (foreign, log) = (folder.path().join("note"), folder.path().join("log.0000000000000001"));
        for path in [&foreign, &log] {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        DataDirectory::open(folder.path()).unwrap();
        assert_eq!((mode(folder.path()), mode(&foreign), mode(&log)), (0o755, 0o644, 0o600));
    }

    #[test]
    fn data_of_apache_zookeeper_is_refused_with_the_cure_and_left_as_it_is() {
        for name in ["version-2", "log.100000001", "snapshot.0", "acceptedEpoch"] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
            let error = DataDirectory::open(folder.path()).unwrap_err();
            assert!(matches!(&error, StorageError::Apache { path } if path.ends_with(name)), "{error:?}");
            assert!(error.to_string().contains("name an empty directory"), "{error}");
            assert_eq!(mode(folder.path()), 0o755);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_directory_has_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDirectory::open(folder.path()).unwrap();
        assert!(matches!(DataDirectory::open(folder.path()), Err(StorageError::InUse { .. })));
        drop(first);
        DataDirectory::open(folder.path()).unwrap();
    }

    #[test]
    fn files_are_told_by_their_names_and_foreign_ones_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(folder.path()).unwrap();
        let paths = [directory.log_path(16), directory.log_path(2), directory.snapshot_path(2)];
        for path in paths.iter().chain([&folder.path().join("log.note"), &DataDirectory::unfinished(&paths[2])]) {
            fs::write(path, "").unwrap();
        }
        let files = directory.files().unwrap();
        assert_eq!(files.logs, [(2, paths[1].clone()), (16, paths[0].clone())]);
        assert_eq!(files.snapshots, [(2, paths[2].clone())]);
        directory.supersede(16, |path| fs::remove_file(path));
        let files = directory.files().unwrap();
        assert_eq!((files.logs.len(), files.snapshots.len(), files.previous.len()), (1, 0, 2));
        assert!(folder.path().join("log.note").exists());
    }

    #[test]
    fn one_snapshot_and_its_logs_are_kept_beside_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(folder.path()).unwrap();
        let mut kept = Vec::new();
        for zxid in [1, 2, 3] {
            // Between two snapshots there can be a second log, after a snapshot that could not be written.
            for path in [directory.log_path(zxid * 16), directory.snapshot_path(zxid * 16)] {
                fs::write(path, "").unwrap();
            }
            fs::write(directory.log_path(zxid * 16 + 8), "").unwrap();
            directory.supersede(zxid * 16, |path| fs::remove_file(path));
            let files = directory.files().unwrap();
            assert_eq!((files.snapshots.len(), files.logs.len()), (1, 2));
            kept.push(files.previous.iter().map(|(begin, _)| *begin).collect::<Vec<_>>());
        }
        assert_eq!(kept, [vec![], vec![16, 16, 24], vec![32, 32, 40]]);
    }
}
