//! The calls that go through a gate.
//!
//! An entry is made in the caller's own call, by a handful of system calls that do not wait. If another process is just
//! entering, or something must be flushed, the entry is handed to a thread that may wait, with all calls after it. Such
//! a thread serves one gate after the other, and ends when no call is left. An attempt starts over if the directory was
//! removed meanwhile.

use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, Operation, QueueName, Result, ValueVersion};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::base::Base;
use crate::counter::Counter;
use crate::directory::{Locked, QueueDirectory};
use crate::errors::failed;
use crate::gate::{FileJoin, GateTurn, JoinedEntries, PendingCall, QueueGate, WriteCall};
use crate::inner::FileSessionState;
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
pub(crate) fn join(session: &Arc<FileSessionState>, gate: &Arc<QueueGate>, joining: FileJoin) -> Course<JoinedEntries> {
    let Some(mut turn) = gate.turn() else {
        return Course::Done(Err(closed(Operation::Join)));
    };
    if !joining.needs_disk()
        && let Some(slot) = turn.directory()
    {
        let attempt = attempt(&session.base, gate.lock(), slot, Operation::Join, Patience::Now, |directory| {
            joining.join(session, directory, &session.counter, Patience::Now)
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
        serve_later(session, gate.clone());
    }
    Ok(())
}

fn is_wanted(pending: &PendingCall, table: &PlaceTable) -> bool {
    match pending {
        PendingCall::Join(joining, _) => joining.tickets().all(|ticket| table.is_wanted(ticket)),
        PendingCall::Write(writing, _) => table.is_wanted(writing.ticket),
    }
}

fn closed(operation: Operation) -> Error {
    Error::permanent(ErrorKind::Closed, operation, "the session was closed")
}

/// The stack of such a thread, in bytes: it calls nothing deep, and keeps one listing's buffer there.
const STACK_BYTES: usize = 256 * 1024;

/// Has a gate served by a thread that may wait.
fn serve_later(session: &Arc<FileSessionState>, gate: Arc<QueueGate>) {
    let Some(gate) = session.helpers().engage(gate) else {
        return;
    };
    let (helped, served) = (session.clone(), gate.clone());
    let builder = std::thread::Builder::new().name("lockkeeper-file".to_owned()).stack_size(STACK_BYTES);
    if let Err(source) = builder.spawn(move || help(&helped, served)) {
        session.helpers().dismiss();
        let message = "no thread could be started to wait for another process";
        let error = Error::transient(ErrorKind::LimitReached, Operation::Join, message).caused_by(source);
        refuse(session, &gate, &error);
    }
}

fn help(session: &FileSessionState, mut gate: Arc<QueueGate>) {
    // A separate opening of the counter: a flock is shared by all who use one opening.
    let counter = Mutex::new(session.separate_counter());
    loop {
        serve(session, &gate, &counter);
        match session.helpers().next() {
            Some(next) => gate = next,
            None => return,
        }
    }
}

/// Does what waits at a gate, until there is nothing left.
fn serve(session: &FileSessionState, gate: &QueueGate, counter: &Mutex<Counter>) {
    let patience = Patience::Unbounded(&gate.held_up);
    let (base, lock, looker) = (&session.base, gate.lock(), &session.looker);
    let mut directory = gate.take_directory();
    let mut next = gate.next_pending(looker, &mut directory);
    while let Some(pending) = next {
        // The directory is given back before the outcome is reported, so that a caller who then closes the session
        // finds it there to be removed. The caller may be gone; then the ticket is withdrawn, or will be.
        match pending {
            PendingCall::Join(joining, report) => {
                let attempt = attempt(base, lock, &mut directory, Operation::Join, patience, |directory| {
                    joining.join(session, directory, counter, patience)
                });
                let outcome = conclude(attempt, Operation::Join).unwrap_or_else(|| Err(restless(Operation::Join)));
                next = gate.next_pending(looker, &mut directory);
                if outcome.is_err() {
                    joining.tickets().for_each(|ticket| session.forget(ticket));
                }
                let _ = report.send(outcome);
            }
            PendingCall::Write(writing, report) => {
                let attempt = attempt(base, lock, &mut directory, Operation::Value, patience, |directory| {
                    writing.write(session, directory, counter, patience)
                });
                let outcome = conclude(attempt, Operation::Value).unwrap_or_else(|| Err(restless(Operation::Value)));
                next = gate.next_pending(looker, &mut directory);
                session.forget(writing.ticket);
                let _ = report.send(outcome);
            }
        }
    }
}

/// Refuses all who wait, because no thread could be started.
fn refuse(session: &FileSessionState, gate: &QueueGate, error: &Error) {
    for pending in gate.abandon_pending() {
        match pending {
            PendingCall::Join(joining, report) => {
                joining.tickets().for_each(|ticket| session.forget(ticket));
                let _ = report.send(Err(error.clone()));
            }
            PendingCall::Write(writing, report) => {
                session.forget(writing.ticket);
                let _ = report.send(Err(error.clone()));
            }
        }
    }
}

/// How often an entry starts over because the directory was removed meanwhile: each time takes another process that
/// comes and goes.
const REOPENS_MAX: u32 = 1_000;

#[derive(Debug)]
pub(crate) enum AttemptOutcome<T> {
    Done(T),
    /// It has to be done by a thread that may wait.
    Busy,
    Withdrawn,
    /// The directory was removed or replaced meanwhile.
    Removed,
}

/// Does something under the lock's flock, in a directory that is there.
pub(crate) fn attempt<T>(
    base: &Base,
    lock: &QueueName,
    slot: &mut Option<QueueDirectory>,
    operation: Operation,
    patience: Patience<'_>,
    act: impl Fn(&QueueDirectory) -> Result<AttemptOutcome<T>>,
) -> Result<AttemptOutcome<T>> {
    let fail = |what, errno| failed(operation, what, &base.queue_path(lock), errno);
    for _ in 0..REOPENS_MAX {
        let mut directory = match slot.take() {
            Some(directory) => directory,
            None => QueueDirectory::open(base, lock).map_err(|errno| fail("enter the directory", errno))?,
        };
        let attempt = match directory.lock(patience) {
            Ok(Locked::Ours) => {
                let attempt = act(&directory);
                directory.unlock();
                attempt
            }
            Ok(Locked::Busy) => Ok(AttemptOutcome::Busy),
            Ok(Locked::Removed) => Ok(AttemptOutcome::Removed),
            Err(errno) => Err(fail("lock the directory", errno)),
        };
        if !matches!(attempt, Ok(AttemptOutcome::Removed)) {
            *slot = Some(directory);
            return attempt;
        }
    }
    Err(restless(operation))
}

/// Returns the outcome of an attempt; `None` if it has to be made by a thread that may wait.
pub(crate) fn conclude<T>(attempt: Result<AttemptOutcome<T>>, operation: Operation) -> Option<Result<T>> {
    match attempt {
        Ok(AttemptOutcome::Done(done)) => Some(Ok(done)),
        Ok(AttemptOutcome::Busy) => None,
        Ok(AttemptOutcome::Withdrawn) => {
            let message = "the entry was withdrawn while it was under way";
            Some(Err(Error::permanent(ErrorKind::Closed, operation, message)))
        }
        Ok(AttemptOutcome::Removed) => Some(Err(restless(operation))),
        Err(error) => Some(Err(error)),
    }
}

pub(crate) fn restless(operation: Operation) -> Error {
    let message = "the queue's directory is made and removed again and again";
    Error::transient(ErrorKind::Backend, operation, message)
}
