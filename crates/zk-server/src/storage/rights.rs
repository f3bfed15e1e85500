//! Rights on a data directory: the user that runs the server reads it and no other, since a snapshot has the secret
//! that every session's password is made from.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The rights of a data directory: all for its user, none for others.
const DIRECTORY_MODE: u32 = 0o700;
/// The rights of its files.
const FILE_MODE: u32 = 0o600;
/// The rights that other users have, of a file's mode.
const OTHERS_MASK: u32 = 0o077;

/// Creates a directory for its user alone if it does not exist. Those above it are created with the usual rights.
///
/// # Errors
///
/// Fails if the system does.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Creates a file for its user alone, or empties the one there is.
///
/// # Errors
///
/// Fails if the system does.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(true).write(true).mode(FILE_MODE).open(path)
}

/// Opens a file for writing, or creates it for its user alone.
///
/// # Errors
///
/// Fails if the system does.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)
}

/// Takes the rights that other users have on a file or directory; returns the mode that it had if they had any.
///
/// # Errors
///
/// Fails if they cannot be taken, as for a file of another user.
pub(super) fn narrow(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS_MASK == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_MASK))?;
    Ok(Some(mode & 0o777))
}
