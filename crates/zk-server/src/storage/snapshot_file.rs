//! The form of a snapshot's file: a header with a checksum, and the state. It is written piece by piece.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::machine::ServerState;
use crate::record::decode_state;
use crate::storage::directory::DataDirectory;
use crate::storage::error::StorageError;
use crate::storage::rights;

/// Begins each snapshot; the last character is the version of the form.
const MAGIC: &[u8; 8] = b"LKZKSNP2";
/// Begins each snapshot of the former form.
const MAGIC_FORMER: &[u8; 8] = b"LKZKSNP1";
/// The magic, the length of the state and its checksum.
const HEADER_BYTES: usize = 20;
/// After how many bytes a piece is flushed: the log's flushes wait behind it, so it is a short one.
const FLUSH_BYTES: usize = 1 << 20;

/// What the form of a snapshot says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SnapshotForm {
    /// The log that goes on from it was made before it.
    Current,
    /// That log was made after it, and may be missing.
    Former,
}

/// A snapshot that is being written. Until it is finished it has another name; dropped before, it is removed.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    file: File,
    unfinished: PathBuf,
    length: u64,
    checksum: crc32fast::Hasher,
    unflushed_bytes: usize,
    is_finished: bool,
}

impl SnapshotFile {
    /// Begins a snapshot that is to have the name `path`.
    ///
    /// # Errors
    ///
    /// Fails if the system does; the earlier files are unchanged.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let unfinished = DataDirectory::unfinished(path);
        let file = rights::create_file(&unfinished)?;
        let checksum = crc32fast::Hasher::new();
        let mut begun = Self { file, unfinished, length: 0, checksum, unflushed_bytes: 0, is_finished: false };
        begun.file.write_all(&[0; HEADER_BYTES])?;
        Ok(begun)
    }

    /// Writes the next piece of the state.
    ///
    /// # Errors
    ///
    /// Fails if the system does.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.checksum.update(piece);
        self.length += piece.len() as u64;
        self.unflushed_bytes += piece.len();
        if self.unflushed_bytes >= FLUSH_BYTES {
            self.unflushed_bytes = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Ends the snapshot and gives it its name, for good.
    ///
    /// # Errors
    ///
    /// Fails if the system does; the earlier files are unchanged.
    pub(super) fn finish(mut self, directory: &DataDirectory, path: &Path) -> io::Result<()> {
        let checksum = std::mem::take(&mut self.checksum).finalize();
        let header = [&MAGIC[..], &self.length.to_be_bytes(), &checksum.to_be_bytes()].concat();
        self.file.write_all_at(&header, 0)?;
        self.file.sync_all()?;
        directory.finish(path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed now is overwritten by the next attempt, or removed after it.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Reads a snapshot.
///
/// # Errors
///
/// Fails if it cannot be read or is not as it was written.
pub(super) fn read(path: &Path, tick: Duration) -> Result<(ServerState, SnapshotForm), StorageError> {
    let bytes = Bytes::from(fs::read(path).map_err(|error| StorageError::io(path, error))?);
    let form = match bytes.first_chunk() {
        Some(MAGIC) if bytes.len() >= HEADER_BYTES => SnapshotForm::Current,
        Some(MAGIC_FORMER) if bytes.len() >= HEADER_BYTES => SnapshotForm::Former,
        _ => return Err(StorageError::damaged(path, "it does not begin as a snapshot does")),
    };
    let state = bytes.slice(HEADER_BYTES..);
    let length = (state.len() as u64).to_be_bytes();
    let checksum = crc32fast::hash(&state).to_be_bytes();
    if bytes[8..16] != length || bytes[16..HEADER_BYTES] != checksum {
        return Err(StorageError::damaged(path, "its checksum is wrong"));
    }
    let state = decode_state(state, tick).map_err(|error| StorageError::damaged(path, error.to_string()))?;
    Ok((state, form))
}
