//! The calls that wait to get into a lock's queues, as plain data: how each is carried out is left to `joining` and
//! `value`.

use std::sync::Arc;

use lockkeeper_core::{Entry, Expected, Lifetime, QueueName, QueueView, Result, Ticket, ValueVersion};
use tokio::sync::oneshot;

use crate::pipe::Pipe;

/// Entries to be made together.
#[derive(Debug)]
pub(crate) struct JoinCall {
    pub(crate) queue: QueueName,
    /// At least one.
    pub(crate) entries: Vec<Entry>,
}

impl JoinCall {
    /// Returns the tickets of the entries.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.entries.iter().map(|entry| entry.ticket)
    }

    /// Tells whether one of them has to be put on the disk.
    pub(crate) fn needs_disk(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.lifetime, Lifetime::Persistent { .. }))
    }
}

/// Entries that were made.
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
    Join(JoinCall, oneshot::Sender<Result<JoinedEntries>>),
    Write(WriteCall, oneshot::Sender<Result<Option<ValueVersion>>>),
}
