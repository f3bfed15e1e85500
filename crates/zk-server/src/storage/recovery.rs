//! From files to a state: the newest snapshot, and every record since; and the findings, for the operator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use bytes::Bytes;

use crate::machine::ServerState;
use crate::record::decode_transaction;
use crate::storage::directory::{DataDirectory, Files};
use crate::storage::error::StorageError;
use crate::storage::log::{LogDamage, Scan, salvage, scan};
use crate::storage::snapshotting::{SnapshotForm, read_snapshot};

/// What a directory gave back.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) state: ServerState,
    pub(super) found: Recovered,
    /// The logs without an end, in order.
    pub(super) unended: Vec<Unended>,
}

/// A log that was being written when its server ended.
#[derive(Debug)]
pub(super) struct Unended {
    pub(super) path: PathBuf,
    pub(super) zxid: i64,
    /// Where its records end.
    pub(super) end: usize,
    /// The log that was made after it.
    pub(super) next: Option<i64>,
}

#[derive(Debug)]
struct LogSource {
    path: PathBuf,
    /// Whether the operator lets it be read as far as it is whole.
    may_be_damaged: bool,
}

/// Reads the state back; `None` from a directory that never had one. Changes no file.
///
/// A torn end of the last log is left out: nothing in it was acknowledged.
/// Fails if anything that was acknowledged is missing or damaged, rather than to go on without it.
pub(super) fn recover(directory: &DataDirectory, tick: Duration) -> Result<Option<Recovery>, StorageError> {
    let files = directory.files()?;
    let Some((begin, snapshot)) = files.snapshots.last() else {
        return match files.logs.iter().chain(&files.previous).next() {
            Some((_, file)) => {
                Err(StorageError::damaged(file, "the snapshot it goes on from is missing")
                    .with_cure(snapshot_cure(&files)))
            }
            None => Ok(None),
        };
    };
    let spoilt = |error: StorageError| error.with_cure(snapshot_cure(&files));
    let (state, form) = read_snapshot(snapshot, tick).map_err(spoilt)?;
    if state.zxid != *begin {
        return Err(spoilt(StorageError::damaged(snapshot, "it is the snapshot of another transaction")));
    }
    let found = Recovered { snapshot_zxid: *begin, ..Recovered::default() };
    let mut recovery = Recovery { state, found, unended: Vec::new() };
    recovery.read_logs(directory, form, &sources(&files, *begin))?;
    recovery.found.nodes = recovery.state.tree.len();
    recovery.found.sessions = recovery.state.sessions.len();
    Ok(Some(recovery))
}

/// The logs since a snapshot. One that is there under its name is read under no other.
fn sources(files: &Files, begin: i64) -> BTreeMap<i64, LogSource> {
    let source =
        |may_be_damaged| move |(zxid, path): &(i64, PathBuf)| (*zxid, LogSource { path: path.clone(), may_be_damaged });
    let damaged = files.incomplete.iter().map(source(true));
    damaged.chain(files.logs.iter().map(source(false))).filter(|(zxid, _)| *zxid >= begin).collect()
}

impl Recovery {
    /// Reads logs one after the other. A server that wrote snapshots of the former form could end before it had made
    /// the log that goes with one.
    fn read_logs(
        &mut self,
        directory: &DataDirectory,
        form: SnapshotForm,
        sources: &BTreeMap<i64, LogSource>,
    ) -> Result<(), StorageError> {
        let unmade = sources.keys().next_back().copied().filter(|_| form == SnapshotForm::Former);
        let mut expected = (form == SnapshotForm::Current).then_some(self.state.zxid);
        self.found.lacks_log = form == SnapshotForm::Former && sources.is_empty();
        for (zxid, source) in sources {
            if let Some(missing) = expected.filter(|expected| expected != zxid) {
                return Err(missing_log(directory, missing));
            }
            if *zxid < self.state.zxid {
                return Err(StorageError::damaged(&source.path, "it begins before the one before it ends"));
            }
            let scan = if source.may_be_damaged {
                self.found.incomplete = Some(source.path.clone());
                salvage(&read(&source.path)?, *zxid)
            } else {
                read_log(&source.path, *zxid, Some(*zxid) == unmade)?
            };
            self.take(*zxid, source, &scan)?;
            self.found.lacks_log |= scan.end == 0;
            expected = scan.ending.and_then(|ending| ending.next);
            for record in scan.records {
                self.replay(&source.path, record)?;
            }
        }
        expected.map_or(Ok(()), |missing| Err(missing_log(directory, missing)))
    }

    /// Notes where a log ends. A server that ends while it makes the next log leaves this one without an end, and the
    /// next one empty.
    fn take(&mut self, zxid: i64, source: &LogSource, scan: &Scan) -> Result<(), StorageError> {
        if let Some(earlier) = self.unended.iter_mut().rev().find(|earlier| earlier.next.is_none()) {
            earlier.next = Some(zxid);
        }
        if let Some(earlier) = self.unended.first().filter(|_| !scan.records.is_empty()) {
            return Err(StorageError::damaged(&earlier.path, "its end is missing, and a later log goes on from there"));
        }
        self.found.cut_bytes += scan.torn_bytes as u64;
        if scan.ending.is_none() {
            self.unended.push(Unended { path: source.path.clone(), zxid, end: scan.end, next: None });
        }
        Ok(())
    }

    fn replay(&mut self, path: &Path, record: Bytes) -> Result<(), StorageError> {
        let transaction = decode_transaction(record, &mut self.state.tree)
            .map_err(|error| StorageError::damaged(path, format!("a record cannot be read: {error}")))?;
        if transaction.zxid <= self.state.zxid {
            return Err(StorageError::damaged(path, "its transactions are not in order"));
        }
        self.found.transactions += 1;
        self.state.replay(&transaction).map_err(|error| {
            let zxid = transaction.zxid;
            StorageError::damaged(path, format!("transaction {zxid:#x} does not fit the state: {error}"))
        })
    }
}

fn read(path: &Path) -> Result<Bytes, StorageError> {
    fs::read(path).map(Bytes::from).map_err(|error| StorageError::io(path, error))
}

/// Reads one log. One that may be unmade can be without its header.
fn read_log(path: &Path, zxid: i64, may_be_unmade: bool) -> Result<Scan, StorageError> {
    let bytes = read(path)?;
    if may_be_unmade && bytes.iter().all(|byte| *byte == 0) {
        return Ok(Scan { records: Vec::new(), end: 0, torn_bytes: 0, ending: None });
    }
    let what = match scan(&bytes, zxid) {
        Ok(scan) => return Ok(scan),
        Err(LogDamage::Header) => "it does not begin as a log does".to_owned(),
        Err(LogDamage::Hole { offset }) => {
            format!("the record at byte {offset} is damaged, and records behind it are whole")
        }
        Err(LogDamage::Short { flushed }) => {
            format!("it is cut short: it has {} bytes, and had {flushed} when it was written", bytes.len())
        }
    };
    let renamed = DataDirectory::incomplete(path);
    let cure = format!(
        "restore the directory from a backup, or rename the file to {}, and the next start reads it as far as it is \
         whole; what it held behind is lost then",
        name_of(&renamed)
    );
    Err(StorageError::damaged(path, what).with_cure(cure))
}

fn missing_log(directory: &DataDirectory, zxid: i64) -> StorageError {
    let path = directory.log_path(zxid);
    let cure = format!(
        "restore the directory from a backup, or create the empty file {}, and the next start goes on without the \
         writes that the log held",
        name_of(&DataDirectory::incomplete(&path))
    );
    StorageError::damaged(&path, "it is missing").with_cure(cure)
}

/// How to go on from the previous snapshot, if it was kept.
fn snapshot_cure(files: &Files) -> String {
    let kept: Vec<_> = files.previous.iter().map(|(_, path)| name_of(path)).collect();
    if kept.is_empty() {
        return "restore the directory from a backup".to_owned();
    }
    format!(
        "restore the directory from a backup, or go on from the previous snapshot, after which the logs have all that \
         followed: move the damaged one away, and take the end `.previous` off the names of {}",
        kept.join(", ")
    )
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Says what a start found in its data directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Recovered {
    /// The number of the last transaction that the snapshot has.
    pub snapshot_zxid: i64,
    /// How many transactions were read after it.
    pub transactions: u64,
    /// How many bytes were cut off: parts of transactions that were never acknowledged, as a crash leaves them.
    pub cut_bytes: u64,
    /// How many nodes there are now, the root among them.
    pub nodes: usize,
    /// How many sessions there are now. Each has its timeout from the start on for its client to come back.
    pub sessions: usize,
    /// The damaged log that was read as far as it could be, since its name said so.
    pub incomplete: Option<PathBuf>,
    /// Whether the log after the snapshot is missing or empty, where that is not known to be damage: a former version
    /// leaves it so when it is killed during its start.
    pub lacks_log: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { snapshot_zxid, transactions, cut_bytes, nodes, sessions, incomplete, lacks_log } = self;
        write!(
            formatter,
            "recovered nodes: {nodes}, sessions: {sessions}, by the snapshot of {snapshot_zxid:#x} and the \
             transactions after it: {transactions}"
        )?;
        if *cut_bytes > 0 {
            write!(formatter, "; {cut_bytes} bytes of transactions that were never acknowledged are cut off")?;
        }
        if let Some(path) = incomplete {
            write!(formatter, "; {} was read as far as it is whole, and what it held behind is lost", path.display())?;
        }
        if *lacks_log {
            formatter.write_str(
                "; the log after the snapshot is missing or empty, as a former version leaves it when it is killed \
                 during its start: if it was not, writes are lost, and a backup may have them",
            )?;
        }
        Ok(())
    }
}
