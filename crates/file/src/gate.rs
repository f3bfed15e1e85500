//! The way into the queues of one lock for one session: one thing at a time, in the order of the calls.
//!
//! This is its state alone: the open directory, the calls that wait, as plain data, and how many threads serve gates.
//! `entering` carries calls out by `joining` and `value`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    Entry, Error, ErrorKind, Expected, Lifetime, Operation, QueueName, QueueView, Result, Ticket, ValueVersion,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::directory::QueueDirectory;
use crate::pipe::{Looker, Pipe};
use crate::shared_files::HeldUp;
use crate::tidying;

/// How many calls of one session may wait to get into one lock's queues; each is a caller with a separate future.
const PENDING_MAX: usize = 100_000;

/// How long another process may take to enter a queue: a few system calls, and on a busy machine some time in which it
/// does not run.
const STUCK_AFTER: Duration = Duration::from_millis(200);

/// How often, in calls that are handed to a thread, the withdrawn ones among them are taken out: a process that was
/// stopped while it entered may hold them all up for long.
const PENDING_PURGE: usize = 1_024;

/// The way into the queues of one lock.
#[derive(Debug)]
pub(crate) struct QueueGate {
    lock: QueueName,
    state: Mutex<GateState>,
    /// Whether the thread that serves it waits for another process.
    pub(crate) held_up: HeldUp,
}

#[derive(Debug, Default)]
struct GateState {
    /// Absent while a thread has it, or if it was not needed yet.
    directory: Option<QueueDirectory>,
    /// Whether a thread serves this gate, or is about to: then every call goes to it, so that none overtakes.
    served: bool,
    /// Whether the session has done with this lock.
    retired: bool,
    pending: VecDeque<PendingCall>,
}

/// One call at a gate. No other call goes on there meanwhile.
#[derive(Debug)]
pub(crate) struct GateTurn<'a> {
    state: MutexGuard<'a, GateState>,
}

impl QueueGate {
    pub(crate) fn new(lock: QueueName) -> Self {
        Self { lock, state: Mutex::default(), held_up: HeldUp::default() }
    }

    /// Returns the lock whose queues it leads to.
    pub(crate) fn lock(&self) -> &QueueName {
        &self.lock
    }

    /// Tells whether the calls wait for another process.
    pub(crate) fn is_held_up(&self) -> bool {
        self.held_up.is_so()
    }

    /// Waits until a thread has waited for the same other process for so long that it must be stopped.
    pub(crate) async fn is_stuck(&self, clock: &dyn Clock) {
        loop {
            let wait = self.held_up.number();
            clock.sleep_until(clock.now().saturating_add(STUCK_AFTER)).await;
            if wait.is_some() && wait == self.held_up.number() {
                return;
            }
        }
    }

    /// Begins a call; `None` if the session has done with this lock.
    pub(crate) fn turn(&self) -> Option<GateTurn<'_>> {
        let state = self.state.lock();
        (!state.retired).then_some(GateTurn { state })
    }

    /// Hands the directory to the thread that serves the gate.
    pub(crate) fn take_directory(&self) -> Option<QueueDirectory> {
        self.state.lock().directory.take()
    }

    /// Returns what is to be done next; if there is nothing, the thread has done with this gate, and the directory is
    /// given back.
    pub(crate) fn next_pending(&self, looker: &Looker, directory: &mut Option<QueueDirectory>) -> Option<PendingCall> {
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.pop_front() {
            return Some(pending);
        }
        state.served = false;
        state.directory = directory.take();
        if state.retired
            && let Some(directory) = state.directory.take()
        {
            tidying::reap(looker, directory);
        }
        None
    }

    /// Returns all calls that wait, because no thread could be started to serve them.
    pub(crate) fn abandon_pending(&self) -> VecDeque<PendingCall> {
        let mut state = self.state.lock();
        state.served = false;
        std::mem::take(&mut state.pending)
    }

    /// Ends the session's use of the lock: removes its directory, if no contender stands in it.
    pub(crate) fn retire(&self, looker: &Looker) {
        let mut state = self.state.lock();
        state.retired = true;
        // A thread that serves the gate has the directory, and reaps when it is done.
        if let Some(directory) = state.directory.take() {
            tidying::reap(looker, directory);
        }
    }
}

impl GateTurn<'_> {
    /// Returns the place of the directory; `None` while a thread serves the gate, which no call may overtake.
    pub(crate) fn directory(&mut self) -> Option<&mut Option<QueueDirectory>> {
        (!self.state.served).then_some(&mut self.state.directory)
    }

    /// Tells whether the withdrawn calls are to be taken out before one more is added.
    pub(crate) fn is_purge_due(&self) -> bool {
        (self.state.pending.len() + 1).is_multiple_of(PENDING_PURGE)
    }

    /// Takes out the calls that are not wanted.
    pub(crate) fn purge(&mut self, is_wanted: impl FnMut(&PendingCall) -> bool) {
        self.state.pending.retain(is_wanted);
    }

    /// Leaves a call to the thread that serves the gate; `true` if one has to be started.
    pub(crate) fn push(mut self, pending: PendingCall) -> Result<bool> {
        if self.state.pending.len() >= PENDING_MAX {
            let message = format!("{PENDING_MAX} calls of this session wait to get into the queue already");
            return Err(Error::transient(ErrorKind::LimitReached, Operation::Join, message));
        }
        self.state.pending.push_back(pending);
        Ok(!std::mem::replace(&mut self.state.served, true))
    }
}

/// How many threads of one session may wait for other processes at the same time; further queues wait for one of them.
///
/// Such a thread lives while another process is entering a queue: for a few system calls, unless that process is
/// stopped meanwhile.
const HELPERS_MAX: usize = 16;

/// The threads of one session that serve gates.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    running: usize,
    waiting: VecDeque<Arc<QueueGate>>,
}

impl Helpers {
    /// Returns the gate if a thread is to be started for it; else it waits for one that runs.
    pub(crate) fn engage(&mut self, gate: Arc<QueueGate>) -> Option<Arc<QueueGate>> {
        if self.running >= HELPERS_MAX {
            self.waiting.push_back(gate);
            return None;
        }
        self.running += 1;
        Some(gate)
    }

    /// Notes that a thread could not be started.
    pub(crate) fn dismiss(&mut self) {
        self.running -= 1;
    }

    /// Returns the gate that a thread serves next; if there is none, the thread ends.
    pub(crate) fn next(&mut self) -> Option<Arc<QueueGate>> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.running -= 1;
        }
        next
    }
}

/// Entries to be made together.
#[derive(Debug)]
pub(crate) struct FileJoin {
    pub(crate) queue: QueueName,
    /// At least one.
    pub(crate) entries: Vec<Entry>,
}

impl FileJoin {
    pub(crate) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.entries.iter().map(|entry| entry.ticket)
    }

    pub(crate) fn needs_disk(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.lifetime, Lifetime::Persistent { .. }))
    }
}

#[derive(Debug)]
pub(crate) struct JoinedEntries {
    pub(crate) pipes: Vec<Arc<Pipe>>,
    pub(crate) view: QueueView,
}

/// A value to be written or removed.
#[derive(Debug)]
pub(crate) struct WriteCall {
    pub(crate) queue: QueueName,
    /// Under which the session notes that it is under way.
    pub(crate) ticket: Ticket,
    pub(crate) expected: Expected,
    pub(crate) value: Option<Arc<[u8]>>,
}

/// A call that waits, and where its outcome is reported.
#[derive(Debug)]
pub(crate) enum PendingCall {
    Join(FileJoin, oneshot::Sender<Result<JoinedEntries>>),
    Write(WriteCall, oneshot::Sender<Result<Option<ValueVersion>>>),
}
