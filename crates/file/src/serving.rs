//! The threads that carry out the calls which may have to wait: each serves one gate after the other, and ends when no
//! call is left.

use std::sync::{Arc, Mutex};

use lockkeeper_core::{Error, ErrorKind, Operation};

use crate::attempt::{attempt, conclude, restless};
use crate::counter::Counter;
use crate::gate::QueueGate;
use crate::inner::FileSessionState;
use crate::pending::PendingCall;
use crate::shared_files::Patience;

/// The stack of such a thread, in bytes: it calls nothing deep, and keeps one listing's buffer there.
const STACK_BYTES: usize = 256 * 1024;

/// Has a gate served by a thread that may wait.
pub(crate) fn begin(session: &Arc<FileSessionState>, gate: Arc<QueueGate>) {
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
    let patience = Patience::Unbounded(gate.held_up());
    let (base, lock, looker) = (session.base(), gate.lock(), session.looker());
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
