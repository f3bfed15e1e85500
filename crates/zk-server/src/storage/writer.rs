//! The thread that writes: records that came together are written and flushed together.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::machine::ServerState;
use crate::measures::Histogram;
use crate::storage::directory::{DataDirectory, Stamp};
use crate::storage::error::StorageError;
use crate::storage::log::end_payload;
use crate::storage::log_file::{AHEAD_BYTES, Log, end_log};
use crate::storage::recovery::{Unended, recover};
use crate::storage::snapshotting;

/// How many bytes of records are written and flushed together at most.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// How often room is looked for while there is none.
const ROOM_CHECK: Duration = Duration::from_millis(200);
/// How often an idle server looks whether its directory is still there.
const PLACE_CHECK: Duration = Duration::from_secs(1);

/// A command to the writing thread.
#[derive(Debug)]
pub(super) enum StorageCommand {
    /// Write and flush these.
    Append(Vec<Bytes>),
    /// Begin the log that goes on from a snapshot after all records before this; tell whether it is made.
    Roll { zxid: i64, rolled: Sender<bool> },
    /// Read back what is stored.
    Recover { tick: Duration, answer: Sender<Result<Option<ServerState>, StorageError>> },
    /// End.
    Close,
}

/// The result of storing records.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum StorageEvent {
    /// This many more are stored for good.
    Stored(u64),
    /// Some could not be stored, and neither will any that came after them before
    /// [`reload`](super::handle::Storage::reload).
    Refused {
        /// The file, and the system's error.
        reason: String,
    },
    Room,
    /// The directory was removed or replaced: some could not be stored for good, and no more will be.
    Gone {
        /// What is gone.
        reason: String,
    },
    /// It is not known what the disk holds.
    Failed {
        /// The file, and the system's error.
        reason: String,
    },
}

/// The writing thread's state.
#[derive(Debug)]
pub(super) struct LogWriter {
    directory: Arc<DataDirectory>,
    log: Log,
    events: UnboundedSender<StorageEvent>,
    /// Set when records were refused: those that follow build on what was not stored, and are refused with them until
    /// the core has gone back.
    is_refusing: bool,
    lacks_room: bool,
    /// Set when the directory was removed under the server. It does not come back.
    is_gone: bool,
    /// The directory when the log was last seen at its place. Asking the system about the log itself makes the next
    /// write to it dearer, by a tenth.
    seen: Option<Stamp>,
    /// How long the flushes of records took.
    flushes: Arc<Histogram>,
}

/// Why the thread ends at once.
#[derive(Debug)]
struct Untrustworthy(io::Error);

impl LogWriter {
    /// Begins a life: a snapshot of the state, and an empty log after it. The logs of before are ended.
    /// Fails if the system does; the directory can still be recovered then.
    pub(super) fn begin(
        directory: Arc<DataDirectory>,
        state: &mut ServerState,
        unended: &[Unended],
        events: UnboundedSender<StorageEvent>,
    ) -> io::Result<Self> {
        let zxid = state.zxid;
        // The log comes before its snapshot: so a log that is missing was lost.
        let log = Log::create(&directory, zxid)?;
        // One of this number is empty, was made by a start that did not come further, and is replaced.
        for earlier in unended.iter().filter(|earlier| earlier.zxid != zxid) {
            end_log(earlier, zxid)?;
        }
        snapshotting::write_at_once(&directory, state)?;
        directory.supersede(zxid, |path| fs::remove_file(path));
        Ok(Self {
            directory,
            log,
            events,
            is_refusing: false,
            lacks_room: false,
            is_gone: false,
            seen: None,
            flushes: Arc::default(),
        })
    }

    /// Where it records how long flushes take.
    pub(super) fn flushes(&self) -> Arc<Histogram> {
        Arc::clone(&self.flushes)
    }

    /// Executes commands until it is told to end, or it is not known any more what the disk holds.
    pub(super) fn run(mut self, commands: &Receiver<StorageCommand>) {
        if let Err(Untrustworthy(error)) = self.execute(commands) {
            let reason = format!("{}: {error}", self.log.path().display());
            let _ = self.events.send(StorageEvent::Failed { reason });
        }
    }

    fn execute(&mut self, commands: &Receiver<StorageCommand>) -> Result<(), Untrustworthy> {
        while let Some(command) = self.next_command(commands) {
            let mut next = Some(command);
            while let Some(command) = next.take() {
                match command {
                    StorageCommand::Append(records) => {
                        let records = gather(records, commands, &mut next);
                        self.append(&records)?;
                    }
                    StorageCommand::Roll { zxid, rolled } => {
                        // A snapshot that was given up meanwhile waits no more.
                        let _ = rolled.send(self.roll(zxid)?);
                    }
                    StorageCommand::Recover { tick, answer } => {
                        self.is_refusing = false;
                        let recovered = recover(&self.directory, tick);
                        let _ = answer.send(recovered.map(|recovery| recovery.map(|recovery| recovery.state)));
                    }
                    StorageCommand::Close => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// The next command; meanwhile looks for room if there is none, and for the directory. `None` when all senders of
    /// commands are gone.
    fn next_command(&mut self, commands: &Receiver<StorageCommand>) -> Option<StorageCommand> {
        loop {
            // Before the core has gone back it cannot use an event that there is room.
            let looks_for_room = self.lacks_room && !self.is_refusing;
            match commands.recv_timeout(if looks_for_room { ROOM_CHECK } else { PLACE_CHECK }) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.looks_gone() => (),
                Err(RecvTimeoutError::Timeout) => {
                    if looks_for_room && self.log.fill_ahead(AHEAD_BYTES).is_ok() {
                        self.lacks_room = false;
                        let _ = self.events.send(StorageEvent::Room);
                    }
                }
            }
        }
    }

    /// Looks whether the directory was changed, and then whether the log is still there.
    fn finds_gone(&mut self) -> bool {
        let stamp = self.directory.stamp();
        if stamp.is_none() || stamp != self.seen {
            self.looks_gone();
            self.seen = stamp;
        }
        self.is_gone
    }

    /// Looks whether the directory was removed or replaced, and tells it once.
    fn looks_gone(&mut self) -> bool {
        if !self.is_gone && self.log.is_gone() {
            self.is_gone = true;
            let reason = format!("{} is not there any more", self.log.path().display());
            let _ = self.events.send(StorageEvent::Gone { reason });
        }
        self.is_gone
    }

    /// Writes and flushes records. Without room it is as if they had never come.
    fn append(&mut self, records: &[Bytes]) -> Result<(), Untrustworthy> {
        if self.is_refusing || self.is_gone {
            return Ok(());
        }
        match self.log.write(records) {
            Ok(end) => {
                // After a failed flush it is not known what the disk holds, and another flush could report success
                // falsely.
                let begun = Instant::now();
                self.log.flush(end).map_err(Untrustworthy)?;
                self.flushes.record(begun.elapsed());
                // A file that was removed can be written and flushed, and is stored nowhere.
                if self.finds_gone() {
                    return Ok(());
                }
                let _ = self.events.send(StorageEvent::Stored(records.len() as u64));
            }
            Err(error) => {
                self.log.cut_back().map_err(Untrustworthy)?;
                self.is_refusing = true;
                self.lacks_room = true;
                let reason = format!("{}: {error}", self.log.path().display());
                let _ = self.events.send(StorageEvent::Refused { reason });
            }
        }
        Ok(())
    }

    /// Begins the log that goes on from a snapshot; `false` if that is not possible, and the present log goes on.
    fn roll(&mut self, zxid: i64) -> Result<bool, Untrustworthy> {
        if self.is_refusing || self.looks_gone() {
            return Ok(false);
        }
        if zxid == self.log.zxid() {
            // The log is there already; so is its snapshot, unless that could not be written.
            return Ok(!self.directory.snapshot_path(zxid).exists());
        }
        match self.begin_next(zxid)? {
            Ok(()) => Ok(true),
            Err(error) => {
                tracing::warn!(
                    "{}: no log could be begun: {error}; the present one grows on, and nothing is lost: make room, or \
                     look to the disk",
                    self.directory.log_path(zxid).display()
                );
                Ok(false)
            }
        }
    }

    /// Begins the next log and ends the present one, in this order: a log that its predecessor's end names was made.
    fn begin_next(&mut self, zxid: i64) -> Result<io::Result<()>, Untrustworthy> {
        let next = match Log::create(&self.directory, zxid) {
            Ok(next) => next,
            Err(error) => return Ok(Err(error)),
        };
        match self.log.write(&[end_payload(zxid)]) {
            Ok(end) => self.log.flush(end).map_err(Untrustworthy)?,
            Err(error) => {
                self.log.cut_back().map_err(Untrustworthy)?;
                fs::remove_file(self.directory.log_path(zxid)).map_err(Untrustworthy)?;
                return Ok(Err(error));
            }
        }
        self.log = next;
        Ok(Ok(()))
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
