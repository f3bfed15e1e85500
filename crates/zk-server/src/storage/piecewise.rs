//! Removes a large file a piece at a time, while others use the disk.
//!
//! A file that is removed at once frees all its blocks in one step of the file system's journal, and each flush that
//! needs the journal waits for that: on ext4 0.1 to 0.3 s for 100 MiB.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// What is cut off in one step, in bytes: as much as a snapshot flushes in one.
const PIECE_BYTES: u64 = 1 << 20;

/// Cuts a file shorter, flush by flush, and removes it.
///
/// # Errors
///
/// Fails if the system does; the file is shorter then, or as it was.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut length = file.metadata()?.len();
    while length > 0 {
        length = length.saturating_sub(PIECE_BYTES);
        file.set_len(length)?;
        file.sync_data()?;
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_length_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for length in [0, 1, PIECE_BYTES, 2 * PIECE_BYTES + 1] {
            fs::write(&path, vec![7; usize::try_from(length).unwrap()]).unwrap();
            remove(&path).unwrap();
            assert!(!path.exists(), "{length} bytes");
        }
        assert_eq!(remove(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
