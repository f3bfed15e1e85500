//! The thread that writes: records that came together are written and flushed together.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::storage::directory::Directory;
use crate::storage::handle::{StorageCommand, StorageEvent};
use crate::storage::log::{HEADER_BYTES, encode_header, encode_record, end_payload, record_bytes};
use crate::storage::recovery::recover;
use crate::storage::rights;
use crate::storage::snapshot_file;

/// How far ahead of the records the file is filled with zeros, in bytes: a flush then has no file size to store.
const AHEAD_BYTES: usize = 1 << 20;
/// How many bytes of records are written and flushed together at most.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// How often room is looked for while there is none.
const ROOM_CHECK: Duration = Duration::from_millis(200);

/// The log that is being written.
#[derive(Debug)]
struct Log {
    file: File,
    zxid: i64,
    /// Where the next record goes.
    end: usize,
    /// Up to where the file is filled, with records or zeros.
    filled: usize,
}

/// The writing thread's state.
#[derive(Debug)]
pub(super) struct LogWriter {
    directory: Directory,
    log: Log,
    events: UnboundedSender<StorageEvent>,
    /// Set when records were refused: those that follow build on what was not stored, and are refused with them until
    /// the core has gone back.
    is_refusing: bool,
    lacks_room: bool,
}

/// Why the thread ends at once.
#[derive(Debug)]
struct Untrustworthy(io::Error);

impl LogWriter {
    /// Begins a life: a snapshot of the state, and an empty log after it.
    ///
    /// # Errors
    ///
    /// Fails if the system does; the directory can still be recovered then.
    pub(super) fn begin(
        directory: Directory,
        zxid: i64,
        state: &[u8],
        events: UnboundedSender<StorageEvent>,
    ) -> io::Result<Self> {
        snapshot_file::write(&directory, &directory.snapshot_path(zxid), state)?;
        let log = Log::create(&directory, zxid)?;
        directory.remove_before(zxid);
        Ok(Self { directory, log, events, is_refusing: false, lacks_room: false })
    }

    /// Executes commands until it is told to end.
    pub(super) fn run(mut self, commands: &Receiver<StorageCommand>) {
        while let Some(command) = self.next_command(commands) {
            let mut next = Some(command);
            while let Some(command) = next.take() {
                match command {
                    StorageCommand::Append(records) => {
                        let records = gather(records, commands, &mut next);
                        if let Err(Untrustworthy(error)) = self.append(&records) {
                            let reason = error.to_string();
                            let _ = self.events.send(StorageEvent::Failed { reason });
                            return;
                        }
                    }
                    StorageCommand::Snapshot { zxid, state } => self.snapshot(zxid, &state),
                    StorageCommand::Recover { tick, answer } => {
                        self.is_refusing = false;
                        let _ = answer.send(recover(&self.directory, tick));
                    }
                    StorageCommand::Close => return,
                }
            }
        }
    }

    /// The next command; looks for room meanwhile if there is none. `None` when all senders of commands are gone.
    fn next_command(&mut self, commands: &Receiver<StorageCommand>) -> Option<StorageCommand> {
        loop {
            // Before the core has gone back it cannot use an event that there is room.
            if !self.lacks_room || self.is_refusing {
                return commands.recv().ok();
            }
            match commands.recv_timeout(ROOM_CHECK) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if self.log.fill_ahead(AHEAD_BYTES).is_ok() {
                        self.lacks_room = false;
                        let _ = self.events.send(StorageEvent::Room);
                    }
                }
            }
        }
    }

    /// Writes and flushes records. Without room it is as if they had never come.
    fn append(&mut self, records: &[Bytes]) -> Result<(), Untrustworthy> {
        if self.is_refusing {
            return Ok(());
        }
        match self.log.write(records) {
            Ok(end) => {
                // After a failed flush it is not known what the disk holds, and another flush could report success
                // falsely.
                self.log.file.sync_data().map_err(Untrustworthy)?;
                self.log.end = end;
                let _ = self.events.send(StorageEvent::Stored(records.len() as u64));
            }
            Err(error) => {
                self.log.cut_back().map_err(Untrustworthy)?;
                self.is_refusing = true;
                self.lacks_room = true;
                let _ = self.events.send(StorageEvent::Refused { reason: error.to_string() });
            }
        }
        Ok(())
    }

    /// Ends the log, begins the next and writes the state between them. If anything fails, the present log goes on.
    fn snapshot(&mut self, zxid: i64, state: &[u8]) {
        if self.is_refusing || zxid == self.log.zxid {
            return;
        }
        let rolled = Log::create(&self.directory, zxid).and_then(|next| {
            let end = self.log.write(&[Bytes::from_static(end_payload())]);
            match end.and_then(|_| self.log.file.sync_data()) {
                Ok(()) => Ok(next),
                Err(error) => {
                    fs::remove_file(self.directory.log_path(zxid))?;
                    Err(error)
                }
            }
        });
        let written = rolled.and_then(|next| {
            self.log = next;
            snapshot_file::write(&self.directory, &self.directory.snapshot_path(zxid), state)
        });
        match written {
            Ok(()) => self.directory.remove_before(zxid),
            Err(error) => tracing::warn!(
                directory = %self.directory.path().display(),
                %error,
                "no snapshot could be written; the log grows on"
            ),
        }
    }
}

impl Log {
    fn create(directory: &Directory, zxid: i64) -> io::Result<Self> {
        let path = directory.log_path(zxid);
        let file = rights::create_file(&path)?;
        let mut log = Self { file, zxid, end: HEADER_BYTES, filled: HEADER_BYTES };
        let made = log
            .file
            .write_all_at(&encode_header(zxid), 0)
            .and_then(|()| log.fill_ahead(AHEAD_BYTES))
            .and_then(|()| log.file.sync_all())
            .and_then(|()| directory.flush());
        match made {
            Ok(()) => Ok(log),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Writes records behind the last; returns where they end. They count once they are flushed.
    fn write(&mut self, records: &[Bytes]) -> io::Result<usize> {
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
        self.file.write_all_at(&buffer, self.end as u64)?;
        Ok(end)
    }

    /// Fills the file with zeros up to `ahead` bytes behind the last record.
    fn fill_ahead(&mut self, ahead: usize) -> io::Result<()> {
        let wanted = self.end + ahead;
        if wanted > self.filled {
            self.file.write_all_at(&vec![0; wanted - self.filled], self.filled as u64)?;
            self.filled = wanted;
        }
        Ok(())
    }

    /// Takes back what was written behind the last flushed record.
    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.end as u64)?;
        self.file.sync_all()?;
        self.filled = self.end;
        Ok(())
    }
}

/// Adds the records that have come meanwhile; the first command of another kind is kept for later.
fn gather(
    mut records: Vec<Bytes>,
    commands: &Receiver<StorageCommand>,
    next: &mut Option<StorageCommand>,
) -> Vec<Bytes> {
    let mut size: usize = records.iter().map(Bytes::len).sum();
    while size < GROUP_BYTES_MAX {
        match commands.try_recv() {
            Ok(StorageCommand::Append(more)) => {
                size += more.iter().map(Bytes::len).sum::<usize>();
                records.extend(more);
            }
            Ok(other) => {
                *next = Some(other);
                break;
            }
            Err(_) => break,
        }
    }
    records
}
