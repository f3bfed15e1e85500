//! How the core uses the writing thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::machine::State;
use crate::measures::Histogram;
use crate::record::encode_state;
use crate::storage::directory::Directory;
use crate::storage::error::StorageError;
use crate::storage::recovered::Recovered;
use crate::storage::recovery::{Recovery, recover};
use crate::storage::writer::LogWriter;

/// After how many bytes of records a snapshot is taken: reading them back takes well under a second.
const SNAPSHOT_AFTER_BYTES: usize = 64 << 20;

/// A command to the writing thread.
#[derive(Debug)]
pub(super) enum StorageCommand {
    /// Write and flush these.
    Append(Vec<Bytes>),
    /// Write the state as it is after all records before this.
    Snapshot { zxid: i64, state: Bytes },
    /// Read back what is stored.
    Recover { tick: Duration, answer: std_mpsc::Sender<Result<Option<State>, StorageError>> },
    /// End.
    Close,
}

/// The result of storing records.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum StorageEvent {
    /// This many more are stored for good.
    Stored(u64),
    /// Some could not be stored, and neither will any that came after them before [`Storage::reload`].
    Refused {
        /// The file, and the system's error.
        reason: String,
    },
    /// There is room again.
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

/// What opening a directory gives.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) state: State,
    /// What was there; `None` if it never had a state.
    pub(crate) found: Option<Recovered>,
}

/// The storage of a running server.
#[derive(Debug)]
pub(crate) struct Storage {
    commands: std_mpsc::Sender<StorageCommand>,
    events: mpsc::UnboundedReceiver<StorageEvent>,
    tick: Duration,
    bytes_since_snapshot: usize,
    ended: oneshot::Receiver<()>,
    flushes: Arc<Histogram>,
}

impl Storage {
    /// Opens a directory, recovers what it holds, begins a new life of it, and starts the writing thread.
    ///
    /// `first_state` makes the state of a directory that never had one.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be used, or what was acknowledged in it is damaged.
    pub(crate) fn open(
        path: &Path,
        tick: Duration,
        wall_ms: i64,
        first_state: impl FnOnce() -> State,
    ) -> Result<Opened, StorageError> {
        let directory = Directory::open(path)?;
        let (mut state, found, unended) = match recover(&directory, tick)? {
            Some(Recovery { state, found, unended }) => (state, Some(found), unended),
            None => (first_state(), None, Vec::new()),
        };
        state.begin_life(wall_ms);
        let (event_sender, events) = mpsc::unbounded_channel();
        let writer = LogWriter::begin(directory, state.zxid, &encode_state(&state), &unended, event_sender)
            .map_err(|error| StorageError::io(path, error))?;
        let flushes = writer.flushes();
        let (commands, command_receiver) = std_mpsc::channel();
        let (ended_sender, ended) = oneshot::channel();
        thread::Builder::new()
            .name("zk-server-log".to_owned())
            .spawn(move || {
                writer.run(&command_receiver);
                let _ = ended_sender.send(());
            })
            .map_err(|error| StorageError::io(path, error))?;
        let storage = Self { commands, events, tick, bytes_since_snapshot: 0, ended, flushes };
        Ok(Opened { storage, state, found })
    }

    /// How long the flushes of records took.
    pub(crate) fn flushes(&self) -> Arc<Histogram> {
        Arc::clone(&self.flushes)
    }

    /// Has records written and flushed.
    pub(crate) fn append(&mut self, records: Vec<Bytes>) {
        if records.is_empty() {
            return;
        }
        self.bytes_since_snapshot += records.iter().map(Bytes::len).sum::<usize>();
        self.tell(StorageCommand::Append(records));
    }

    /// Whether it is time for a snapshot.
    pub(crate) const fn wants_snapshot(&self) -> bool {
        self.bytes_since_snapshot > SNAPSHOT_AFTER_BYTES
    }

    /// Has the state written, which must be the one after all records so far.
    pub(crate) fn take_snapshot(&mut self, state: &State) {
        self.bytes_since_snapshot = 0;
        self.tell(StorageCommand::Snapshot { zxid: state.zxid, state: encode_state(state) });
    }

    /// Returns the result of storing records, in their order; waits for it.
    pub(crate) async fn next_event(&mut self) -> StorageEvent {
        self.events
            .recv()
            .await
            .unwrap_or_else(|| StorageEvent::Failed { reason: "the writing thread has ended".to_owned() })
    }

    /// Reads back what is stored, after records were refused. Events about earlier records do not come any more.
    ///
    /// # Errors
    ///
    /// Fails if the files cannot be read.
    pub(crate) fn reload(&mut self) -> Result<State, StorageError> {
        let gone = || StorageError::damaged(Path::new("log"), "the writing thread has ended");
        let (answer, answered) = std_mpsc::channel();
        self.tell(StorageCommand::Recover { tick: self.tick, answer });
        let state = answered.recv().map_err(|_| gone())??.ok_or_else(gone)?;
        while self.events.try_recv().is_ok() {}
        Ok(state)
    }

    /// Has the state written and the thread ended; the future waits for that.
    pub(crate) fn close(mut self, state: &State) -> impl Future<Output = ()> + use<> {
        self.take_snapshot(state);
        self.tell(StorageCommand::Close);
        async move {
            let _ = self.ended.await;
        }
    }

    fn tell(&self, command: StorageCommand) {
        // A thread that has ended has reported so in an event.
        let _ = self.commands.send(command);
    }
}
