//! The core's handle of the writing thread.

use std::future::pending;
use std::path::Path;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::machine::ServerState;
use crate::measures::Histogram;
use crate::storage::directory::DataDirectory;
use crate::storage::error::StorageError;
use crate::storage::recovery::{Recovered, Recovery, recover};
use crate::storage::snapshotting::Snapshotting;
use crate::storage::writer::{LogWriter, StorageCommand, StorageEvent};

/// After how many bytes of records a snapshot is taken: reading them back takes well under a second.
const SNAPSHOT_AFTER_BYTES: usize = 64 << 20;

/// What opening a directory gives.
#[derive(Debug)]
pub(crate) struct OpenedStorage {
    pub(crate) storage: Storage,
    pub(crate) state: ServerState,
    /// What was there; `None` if it never had a state.
    pub(crate) found: Option<Recovered>,
}

/// The storage of a running server.
#[derive(Debug)]
pub(crate) struct Storage {
    directory: Arc<DataDirectory>,
    commands: std_mpsc::Sender<StorageCommand>,
    snapshot: Option<Snapshotting>,
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
    /// Fails if the directory cannot be used, or what was acknowledged in it is damaged.
    pub(crate) fn open(
        path: &Path,
        tick: Duration,
        wall_ms: i64,
        first_state: impl FnOnce() -> ServerState,
    ) -> Result<OpenedStorage, StorageError> {
        let directory = Arc::new(DataDirectory::open(path)?);
        let (mut state, found, unended) = match recover(&directory, tick)? {
            Some(Recovery { state, found, unended }) => (state, Some(found), unended),
            None => (first_state(), None, Vec::new()),
        };
        state.begin_life(wall_ms);
        let (event_sender, events) = mpsc::unbounded_channel();
        let writer = LogWriter::begin(Arc::clone(&directory), &mut state, &unended, event_sender)
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
        let bytes_since_snapshot = 0;
        let storage = Self { directory, commands, snapshot: None, events, tick, bytes_since_snapshot, ended, flushes };
        Ok(OpenedStorage { storage, state, found })
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

    pub(crate) const fn wants_snapshot(&self) -> bool {
        self.snapshot.is_none() && self.bytes_since_snapshot > SNAPSHOT_AFTER_BYTES
    }

    /// Begins a snapshot of the state, which must be the one after all records so far. [`Storage::go_on`] takes it.
    pub(crate) fn begin_snapshot(&mut self, state: &mut ServerState) {
        self.bytes_since_snapshot = 0;
        let (rolled, was_rolled) = std_mpsc::channel();
        match Snapshotting::begin(Arc::clone(&self.directory), state, was_rolled) {
            Ok(snapshot) => {
                self.snapshot = Some(snapshot);
                self.tell(StorageCommand::Roll { zxid: state.zxid, rolled });
            }
            Err(error) => tracing::warn!("no snapshot can be taken: {error}; the log grows on until one can be"),
        }
    }

    /// Takes the next slice of a snapshot, if one is under way and there is room for it.
    pub(crate) fn go_on(&mut self, state: &mut ServerState) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.go_on(&mut state.tree);
            if snapshot.is_over() {
                self.snapshot = None;
            }
        }
    }

    /// Takes a snapshot of the state to its end.
    pub(crate) async fn finish_snapshot(&mut self, state: &mut ServerState) {
        if let Some(former) = self.snapshot.take_if(|former| former.zxid() != state.zxid) {
            former.give_up();
            state.tree.end_walk();
        }
        if self.snapshot.is_none() {
            self.begin_snapshot(state);
        }
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.finish(&mut state.tree).await;
        }
    }

    /// Waits for the result of storing records, in their order.
    pub(crate) async fn next_event(&mut self) -> StorageEvent {
        event_of(self.events.recv().await)
    }

    /// What there is to wait for: the result of storing records, and room for a snapshot's next slice.
    pub(crate) fn waits(&mut self) -> (impl Future<Output = StorageEvent>, impl Future<Output = ()>) {
        let Self { events, snapshot, .. } = self;
        let event = async { event_of(events.recv().await) };
        let room = async move {
            match snapshot {
                Some(snapshot) => snapshot.has_room().await,
                None => pending().await,
            }
        };
        (event, room)
    }

    /// Reads back what is stored, after records were refused. Events about earlier records do not come any more.
    pub(crate) fn reload(&mut self) -> Result<ServerState, StorageError> {
        let gone = || StorageError::damaged(Path::new("log"), "the writing thread has ended");
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.give_up();
        }
        let (answer, answered) = std_mpsc::channel();
        self.tell(StorageCommand::Recover { tick: self.tick, answer });
        let state = answered.recv().map_err(|_| gone())??.ok_or_else(gone)?;
        while self.events.try_recv().is_ok() {}
        Ok(state)
    }

    /// Has the state written and the threads ended.
    pub(crate) async fn close(mut self, state: &mut ServerState) {
        self.finish_snapshot(state).await;
        self.tell(StorageCommand::Close);
        let _ = self.ended.await;
    }

    fn tell(&self, command: StorageCommand) {
        // A thread that has ended has reported so in an event.
        let _ = self.commands.send(command);
    }
}

fn event_of(received: Option<StorageEvent>) -> StorageEvent {
    received.unwrap_or_else(|| StorageEvent::Failed { reason: "the writing thread has ended".to_owned() })
}
