//! The file of the log that is being written. What its bytes mean is said in `log`.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::storage::directory::{DataDirectory, create_file, open_file};
use crate::storage::log::{
    HEADER_BYTES, encode_header, encode_mark, encode_record, end_payload, mark_offset, record_bytes,
};
use crate::storage::recovery::Unended;

/// How far ahead of the records the file is filled with zeros, in bytes: a flush then has no file size to store.
pub(super) const AHEAD_BYTES: usize = 1 << 20;

/// The log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
    zxid: i64,
    /// Where the next record goes.
    end: usize,
    /// Up to where bytes may have been written that do not count.
    written: usize,
    /// Up to where the file is filled, with records or zeros.
    filled: usize,
    /// Up to where the file is said to be flushed, in its newest mark.
    marked: usize,
    marks_count: usize,
}

impl Log {
    /// Makes an empty log for good. Until it is whole it has another name.
    /// Fails if the system does; the earlier files are unchanged.
    pub(super) fn create(directory: &DataDirectory, zxid: i64) -> io::Result<Self> {
        let path = directory.log_path(zxid);
        let unfinished = DataDirectory::unfinished(&path);
        let file = create_file(&unfinished)?;
        let marked = HEADER_BYTES + AHEAD_BYTES;
        let (end, written, filled) = (HEADER_BYTES, HEADER_BYTES, HEADER_BYTES);
        let mut log = Self { file, path: path.clone(), zxid, end, written, filled, marked, marks_count: 0 };
        let made = log
            .file
            .write_all_at(&encode_header(zxid, marked), 0)
            .and_then(|()| log.fill_ahead(AHEAD_BYTES))
            .and_then(|()| log.file.sync_all())
            .and_then(|()| directory.finish(&path));
        match made {
            Ok(()) => Ok(log),
            Err(error) => {
                // The present log goes on, behind where this one would begin.
                let _ = fs::remove_file(&unfinished);
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// The transaction it begins after.
    pub(super) const fn zxid(&self) -> i64 {
        self.zxid
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is gone from its place: no start would find it there.
    pub(super) fn is_gone(&self) -> bool {
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        match fs::metadata(&self.path) {
            Ok(there) => self.file.metadata().is_ok_and(|ours| identity(ours) != identity(there)),
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// Writes records behind the last; returns where they end. They count once they are flushed.
    /// Fails if the system does: then it must be cut back.
    pub(super) fn write(&mut self, records: &[Bytes]) -> io::Result<usize> {
        let size: usize = records.iter().map(|record| record_bytes(record)).sum();
        let mut buffer = Vec::with_capacity(size);
        for record in records {
            let offset = self.end + buffer.len();
            encode_record(&mut buffer, record, self.zxid, offset, self.end);
        }
        let end = self.end + buffer.len();
        if end > self.filled {
            self.fill_ahead(buffer.len() + AHEAD_BYTES).or_else(|_| self.fill_ahead(buffer.len()))?;
        }
        self.written = end;
        self.file.write_all_at(&buffer, self.end as u64)?;
        Ok(end)
    }

    /// Has what was written up to `end` flushed; from then on it counts.
    /// Fails if the system does: then it is not known what the disk holds.
    pub(super) fn flush(&mut self, end: usize) -> io::Result<()> {
        self.file.sync_data()?;
        if end > self.marked {
            // Only now: a mark that reached the disk before the file's new length would tell of a cut.
            self.file.write_all_at(&encode_mark(self.zxid, self.filled), mark_offset(self.marks_count) as u64)?;
            self.file.sync_data()?;
            self.marked = self.filled;
            self.marks_count += 1;
        }
        self.end = end;
        Ok(())
    }

    /// Fills the file with zeros up to `ahead` bytes behind the last record.
    pub(super) fn fill_ahead(&mut self, ahead: usize) -> io::Result<()> {
        let wanted = self.end + ahead;
        if wanted > self.filled {
            self.file.write_all_at(&vec![0; wanted - self.filled], self.filled as u64)?;
            self.filled = wanted;
        }
        Ok(())
    }

    /// Takes back what was written behind the last flushed record. The file stays as long as its mark says.
    /// Fails if the system does: then it is not known what the disk holds.
    pub(super) fn cut_back(&mut self) -> io::Result<()> {
        let written = self.written.min(self.marked);
        if written > self.end {
            self.file.write_all_at(&vec![0; written - self.end], self.end as u64)?;
        }
        self.file.set_len(self.marked as u64)?;
        self.file.sync_all()?;
        (self.written, self.filled) = (self.end, self.marked);
        Ok(())
    }
}

/// Ends the log of a server that has ended, now that the next one is made.
/// Fails if the system does; the log can still be read then.
pub(super) fn end_log(log: &Unended, newest: i64) -> io::Result<()> {
    if log.end == 0 {
        // It is of the former form, and was never made.
        return Ok(());
    }
    let mut record = Vec::new();
    encode_record(&mut record, &end_payload(log.next.unwrap_or(newest)), log.zxid, log.end, log.end);
    let file = open_file(&log.path)?;
    file.write_all_at(&record, log.end as u64)?;
    file.sync_data()?;
    // What lies behind is not read any more.
    file.set_len((log.end + record.len()) as u64)
}
