//! The calls that go through a gate, from the caller's side.
//!
//! An entry is made in the caller's own call, by a handful of system calls that do not wait. If another process is just
//! entering, or something must be flushed, the entry is handed to a thread that may wait, with all calls after it.

use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ValueVersion};
use tokio::sync::oneshot;

use crate::attempt::{attempt, conclude};
use crate::gate::{GateTurn, QueueGate};
use crate::inner::FileSessionState;
use crate::pending::{JoinCall, JoinedEntries, PendingCall, WriteCall};
use crate::serving;
use crate::shared_files::Patience;
use crate::table::PlaceTable;

/// How a call goes on.
#[derive(Debug)]
pub(crate) enum Course<T> {
    /// It is over.
    Done(Result<T>),
    /// A thread does it and reports there.
    Later(oneshot::Receiver<Result<T>>),
}

/// Makes entries, or has them made.
pub(crate) fn join(session: &Arc<FileSessionState>, gate: &Arc<QueueGate>, joining: JoinCall) -> Course<JoinedEntries> {
    let Some(mut turn) = gate.turn() else {
        return Course::Done(Err(closed(Operation::Join)));
    };
    if !joining.needs_disk()
        && let Some(slot) = turn.directory()
    {
        let attempt = attempt(session.base(), gate.lock(), slot, Operation::Join, Patience::Now, |directory| {
            joining.join(session, directory, session.counter(), Patience::Now)
        });
        if let Some(outcome) = conclude(attempt, Operation::Join) {
            return Course::Done(outcome);
        }
    }
    let (report, receiver) = oneshot::channel();
    push(session, gate, turn, PendingCall::Join(joining, report))
        .map_or_else(|error| Course::Done(Err(error)), |()| Course::Later(receiver))
}

/// Has a value written.
pub(crate) fn write(
    session: &Arc<FileSessionState>,
    gate: &Arc<QueueGate>,
    writing: WriteCall,
) -> Course<Option<ValueVersion>> {
    let Some(turn) = gate.turn() else {
        return Course::Done(Err(closed(Operation::Value)));
    };
    let (report, receiver) = oneshot::channel();
    push(session, gate, turn, PendingCall::Write(writing, report))
        .map_or_else(|error| Course::Done(Err(error)), |()| Course::Later(receiver))
}

/// Leaves a call to a thread that may wait.
fn push(
    session: &Arc<FileSessionState>,
    gate: &Arc<QueueGate>,
    mut turn: GateTurn<'_>,
    pending: PendingCall,
) -> Result<()> {
    if turn.is_purge_due() {
        let table = session.table();
        turn.purge(|pending| is_wanted(pending, &table));
    }
    if turn.push(pending)? {
        serving::begin(session, gate.clone());
    }
    Ok(())
}

/// Tells whether a call was not withdrawn.
fn is_wanted(pending: &PendingCall, table: &PlaceTable) -> bool {
    match pending {
        PendingCall::Join(joining, _) => joining.tickets().all(|ticket| table.is_wanted(ticket)),
        PendingCall::Write(writing, _) => table.is_wanted(writing.ticket),
    }
}

fn closed(operation: Operation) -> Error {
    Error::permanent(ErrorKind::Closed, operation, "the session was closed")
}
