//! The way into the queues of one lock for one session: one thing at a time, in the order of the calls.
//!
//! An entry is made in the caller's own call, by a handful of system calls that do not wait. If another process is just
//! entering, or something must be flushed, the entry is handed to a thread that may wait, with all calls after it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Error, ErrorKind, Operation, QueueName, Result, ValueVersion};
use tokio::sync::oneshot;

use crate::counter::Counter;
use crate::directory::{Locked, QueueDirectory};
use crate::errors::failed;
use crate::inner::Inner;
use crate::joining::{Joined, Joining};
use crate::shared_files::{HeldUp, Patience};
use crate::table::Table;
use crate::value::Writing;
use crate::{locked, tidying};

/// How often an entry starts over because the directory was removed meanwhile: each time takes another process that
/// comes and goes.
const REOPENS_MAX: u32 = 1_000;

/// How many calls of one session may wait to get into one lock's queues; each is a caller with a separate future.
const PENDING_MAX: usize = 100_000;

/// How long another process may take to enter a queue: a few system calls, and on a busy machine some time in which it
/// does not run.
const STUCK_AFTER: Duration = Duration::from_millis(200);

/// How often, in calls that are handed to a thread, the withdrawn ones among them are taken out: a process that was
/// stopped while it entered may hold them all up for long.
const PENDING_PURGE: usize = 1_024;

/// How a call goes on.
#[derive(Debug)]
pub(crate) enum Course<T> {
    /// It is over.
    Done(Result<T>),
    /// A thread does it and reports there.
    Later(oneshot::Receiver<Result<T>>),
}

/// The outcome of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    Done(T),
    /// It has to be done by a thread that may wait.
    Busy,
    Withdrawn,
    /// The directory was removed or replaced meanwhile.
    Removed,
}

/// The way into the queues of one lock.
#[derive(Debug)]
pub(crate) struct Gate {
    lock: QueueName,
    state: Mutex<State>,
    /// Whether the thread that serves it waits for another process.
    held_up: HeldUp,
}

#[derive(Debug, Default)]
struct State {
    /// Absent while a thread has it, or if it was not needed yet.
    directory: Option<QueueDirectory>,
    /// Whether a thread serves this gate, or is about to: then every call goes to it, so that none overtakes.
    served: bool,
    /// Whether the session has done with this lock.
    retired: bool,
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
enum Pending {
    Join(Joining, oneshot::Sender<Result<Joined>>),
    Write(Writing, oneshot::Sender<Result<Option<ValueVersion>>>),
}

impl Pending {
    /// Tells whether it was not withdrawn.
    fn is_wanted(&self, table: &Table) -> bool {
        match self {
            Self::Join(joining, _) => joining.tickets().all(|ticket| table.is_wanted(ticket)),
            Self::Write(writing, _) => table.is_wanted(writing.ticket),
        }
    }
}

impl Gate {
    pub(crate) fn new(lock: QueueName) -> Self {
        Self { lock, state: Mutex::default(), held_up: HeldUp::default() }
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

    /// Makes entries, or has them made.
    pub(crate) fn join(self: &Arc<Self>, session: &Arc<Inner>, joining: Joining) -> Course<Joined> {
        let mut state = locked(&self.state);
        if state.retired {
            return Course::Done(Err(closed(Operation::Join)));
        }
        if !state.served && !joining.needs_disk() {
            let slot = &mut state.directory;
            let attempt = self.attempt(session, slot, Operation::Join, Patience::Now, |directory| {
                joining.join(session, directory, session.counter(), Patience::Now)
            });
            if let Some(outcome) = conclude(attempt, Operation::Join) {
                return Course::Done(outcome);
            }
        }
        let (report, receiver) = oneshot::channel();
        self.push(state, session, Pending::Join(joining, report))
            .map_or_else(|error| Course::Done(Err(error)), |()| Course::Later(receiver))
    }

    /// Has a value written.
    pub(crate) fn write(self: &Arc<Self>, session: &Arc<Inner>, writing: Writing) -> Course<Option<ValueVersion>> {
        let state = locked(&self.state);
        if state.retired {
            return Course::Done(Err(closed(Operation::Value)));
        }
        let (report, receiver) = oneshot::channel();
        self.push(state, session, Pending::Write(writing, report))
            .map_or_else(|error| Course::Done(Err(error)), |()| Course::Later(receiver))
    }

    fn push(
        self: &Arc<Self>,
        mut state: std::sync::MutexGuard<'_, State>,
        session: &Arc<Inner>,
        pending: Pending,
    ) -> Result<()> {
        if (state.pending.len() + 1).is_multiple_of(PENDING_PURGE) {
            let table = session.table();
            state.pending.retain(|pending| pending.is_wanted(&table));
        }
        if state.pending.len() >= PENDING_MAX {
            let message = format!("{PENDING_MAX} calls of this session wait to get into the queue already");
            return Err(Error::transient(ErrorKind::LimitReached, Operation::Join, message));
        }
        state.pending.push_back(pending);
        let was_served = std::mem::replace(&mut state.served, true);
        drop(state);
        if !was_served {
            session.serve(self.clone());
        }
        Ok(())
    }

    /// Does what waits, until there is nothing left; on a thread that may wait.
    pub(crate) fn serve(&self, session: &Arc<Inner>, counter: &Mutex<Counter>) {
        let patience = Patience::Unbounded(&self.held_up);
        let mut directory = locked(&self.state).directory.take();
        let mut next = self.next_pending(session, &mut directory);
        while let Some(pending) = next {
            // The directory is given back before the outcome is reported, so that a caller who then closes the session
            // finds it there to be removed. The caller may be gone; then the ticket is withdrawn, or will be.
            match pending {
                Pending::Join(joining, report) => {
                    let attempt = self.attempt(session, &mut directory, Operation::Join, patience, |directory| {
                        joining.join(session, directory, counter, patience)
                    });
                    let outcome = conclude(attempt, Operation::Join).unwrap_or_else(|| Err(restless(Operation::Join)));
                    next = self.next_pending(session, &mut directory);
                    if outcome.is_err() {
                        joining.tickets().for_each(|ticket| session.forget(ticket));
                    }
                    let _ = report.send(outcome);
                }
                Pending::Write(writing, report) => {
                    let attempt = self.attempt(session, &mut directory, Operation::Value, patience, |directory| {
                        writing.write(session, directory, counter, patience)
                    });
                    let outcome =
                        conclude(attempt, Operation::Value).unwrap_or_else(|| Err(restless(Operation::Value)));
                    next = self.next_pending(session, &mut directory);
                    session.forget(writing.ticket);
                    let _ = report.send(outcome);
                }
            }
        }
    }

    /// Refuses all who wait, because no thread could be started.
    pub(crate) fn refuse(&self, session: &Arc<Inner>, error: &Error) {
        let pending = {
            let mut state = locked(&self.state);
            state.served = false;
            std::mem::take(&mut state.pending)
        };
        for pending in pending {
            match pending {
                Pending::Join(joining, report) => {
                    joining.tickets().for_each(|ticket| session.forget(ticket));
                    let _ = report.send(Err(error.clone()));
                }
                Pending::Write(writing, report) => {
                    session.forget(writing.ticket);
                    let _ = report.send(Err(error.clone()));
                }
            }
        }
    }

    /// Ends the session's use of the lock: removes its directory, if no contender stands in it.
    pub(crate) fn retire(&self, session: &Inner) {
        let mut state = locked(&self.state);
        state.retired = true;
        // A thread that serves the gate has the directory, and reaps when it is done.
        if let Some(directory) = state.directory.take() {
            tidying::reap(session.looker(), directory);
        }
    }

    /// Returns what is to be done next; if there is nothing, the thread has done with this gate.
    fn next_pending(&self, session: &Inner, directory: &mut Option<QueueDirectory>) -> Option<Pending> {
        let mut state = locked(&self.state);
        if let Some(pending) = state.pending.pop_front() {
            return Some(pending);
        }
        state.served = false;
        state.directory = directory.take();
        if state.retired
            && let Some(directory) = state.directory.take()
        {
            tidying::reap(session.looker(), directory);
        }
        None
    }

    /// Does something under the lock's flock, in a directory that is there.
    fn attempt<T>(
        &self,
        session: &Inner,
        slot: &mut Option<QueueDirectory>,
        operation: Operation,
        patience: Patience<'_>,
        act: impl Fn(&QueueDirectory) -> Result<Attempt<T>>,
    ) -> Result<Attempt<T>> {
        let fail = |what, errno| failed(operation, what, &self.path(session), errno);
        for _ in 0..REOPENS_MAX {
            let mut directory = match slot.take() {
                Some(directory) => directory,
                None => QueueDirectory::open(session.base(), &self.lock)
                    .map_err(|errno| fail("enter the directory", errno))?,
            };
            let attempt = match directory.lock(patience) {
                Ok(Locked::Ours) => {
                    let attempt = act(&directory);
                    directory.unlock();
                    attempt
                }
                Ok(Locked::Busy) => Ok(Attempt::Busy),
                Ok(Locked::Removed) => Ok(Attempt::Removed),
                Err(errno) => Err(fail("lock the directory", errno)),
            };
            if !matches!(attempt, Ok(Attempt::Removed)) {
                *slot = Some(directory);
                return attempt;
            }
        }
        Err(restless(operation))
    }

    fn path(&self, session: &Inner) -> PathBuf {
        session.base().queue_path(&self.lock)
    }
}

/// Returns the outcome of an attempt; `None` if it has to be made by a thread that may wait.
fn conclude<T>(attempt: Result<Attempt<T>>, operation: Operation) -> Option<Result<T>> {
    match attempt {
        Ok(Attempt::Done(done)) => Some(Ok(done)),
        Ok(Attempt::Busy) => None,
        Ok(Attempt::Withdrawn) => {
            let message = "the entry was withdrawn while it was under way";
            Some(Err(Error::permanent(ErrorKind::Closed, operation, message)))
        }
        Ok(Attempt::Removed) => Some(Err(restless(operation))),
        Err(error) => Some(Err(error)),
    }
}

fn restless(operation: Operation) -> Error {
    let message = "the queue's directory is made and removed again and again";
    Error::transient(ErrorKind::Backend, operation, message)
}

fn closed(operation: Operation) -> Error {
    Error::permanent(ErrorKind::Closed, operation, "the session was closed")
}
