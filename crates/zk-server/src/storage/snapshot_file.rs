//! The form of a snapshot's file: a header with a checksum, and the state.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::machine::State;
use crate::record::decode_state;
use crate::storage::directory::Directory;
use crate::storage::error::StorageError;
use crate::storage::rights;

/// Begins each snapshot; the last character is the version of the form.
const MAGIC: &[u8; 8] = b"LKZKSNP2";
/// Begins each snapshot of the former form.
const MAGIC_FORMER: &[u8; 8] = b"LKZKSNP1";
/// The magic, the length of the state and its checksum.
const HEADER_BYTES: usize = 20;

/// What the form of a snapshot says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// The log that goes on from it was made before it.
    Current,
    /// That log was made after it, and may be missing.
    Former,
}

/// Writes a snapshot for good. Until it is whole it has another name.
///
/// # Errors
///
/// Fails if the system does; the earlier files are unchanged.
pub(super) fn write(directory: &Directory, path: &Path, state: &[u8]) -> io::Result<()> {
    let unfinished = Directory::unfinished(path);
    let written = rights::create_file(&unfinished).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(&(state.len() as u64).to_be_bytes())?;
        file.write_all(&crc32fast::hash(state).to_be_bytes())?;
        file.write_all(state)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Probably there is no room; what cannot be removed now is overwritten by the next attempt.
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    directory.finish(path)
}

/// Reads a snapshot.
///
/// # Errors
///
/// Fails if it cannot be read or is not as it was written.
pub(super) fn read(path: &Path, tick: Duration) -> Result<(State, Form), StorageError> {
    let bytes = Bytes::from(fs::read(path).map_err(|error| StorageError::io(path, error))?);
    let form = match bytes.first_chunk() {
        Some(MAGIC) if bytes.len() >= HEADER_BYTES => Form::Current,
        Some(MAGIC_FORMER) if bytes.len() >= HEADER_BYTES => Form::Former,
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
