//! From files to a state: the newest snapshot, and every record since.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::machine::State;
use crate::record::decode_transaction;
use crate::storage::directory::Directory;
use crate::storage::error::StorageError;
use crate::storage::log::{LogDamage, Scan, scan};
use crate::storage::snapshot_file;

/// Reads the state back; `None` from a directory that never had one. Changes no file.
///
/// A torn end of the last log is left out: nothing in it was acknowledged.
///
/// # Errors
///
/// Fails if anything that was acknowledged is missing or damaged, rather than to go on without it.
pub(super) fn recover(directory: &Directory, tick: Duration) -> Result<Option<State>, StorageError> {
    let files = directory.files()?;
    let Some((begin, snapshot)) = files.snapshots.last() else {
        return match files.logs.first() {
            Some((_, log)) => Err(StorageError::damaged(log, "the snapshot it goes on from is missing")),
            None => Ok(None),
        };
    };
    let mut state = snapshot_file::read(snapshot, tick)?;
    if state.zxid != *begin {
        return Err(StorageError::damaged(snapshot, "it is the snapshot of another transaction"));
    }
    let mut logs = files.logs.iter().filter(|(zxid, _)| zxid >= begin).peekable();
    let mut not_ended = None;
    while let Some((zxid, log)) = logs.next() {
        let is_last = logs.peek().is_none();
        if *zxid < state.zxid {
            return Err(StorageError::damaged(log, "it begins before the one before it ends"));
        }
        let scan = read_log(log, *zxid, is_last)?;
        if let Some(earlier) = not_ended.filter(|_| !scan.records.is_empty()) {
            return Err(StorageError::damaged(earlier, "its end is missing, and a later log goes on from there"));
        }
        // A server that ends while it makes the next log leaves the last one without an end, and the next one empty.
        not_ended = not_ended.or_else(|| (!scan.is_ended).then_some(log));
        for record in scan.records {
            replay(&mut state, log, record)?;
        }
    }
    Ok(Some(state))
}

/// Reads one log. The last one may be without a whole header: it was being made when the server ended.
fn read_log(path: &Path, zxid: i64, is_last: bool) -> Result<Scan, StorageError> {
    let bytes = Bytes::from(fs::read(path).map_err(|error| StorageError::io(path, error))?);
    scan(&bytes, zxid).or_else(|damage| match damage {
        LogDamage::Header if is_last && bytes.iter().all(|byte| *byte == 0) => {
            Ok(Scan { records: Vec::new(), end: 0, is_ended: false })
        }
        LogDamage::Header => Err(StorageError::damaged(path, "it does not begin as a log does")),
        LogDamage::Hole { offset } => Err(StorageError::damaged(
            path,
            format!("the record at byte {offset} is damaged, and records behind it are whole"),
        )),
    })
}

fn replay(state: &mut State, path: &Path, record: Bytes) -> Result<(), StorageError> {
    let transaction = decode_transaction(record, &mut state.tree)
        .map_err(|error| StorageError::damaged(path, format!("a record cannot be read: {error}")))?;
    if transaction.zxid <= state.zxid {
        return Err(StorageError::damaged(path, "its transactions are not in order"));
    }
    state.replay(&transaction).map_err(|error| {
        let zxid = transaction.zxid;
        StorageError::damaged(path, format!("transaction {zxid:#x} does not fit the state: {error}"))
    })
}
