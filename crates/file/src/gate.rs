//! The way into one queue for one session: one entry at a time, in the order of the calls.
//!
//! An entry is made where it is called for, by a handful of system calls that do not wait. Only when somebody else is
//! just entering, or the counter must be flushed, is it handed to a thread that may wait, with all entries after it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lockkeeper_core::{Contender, Entry, Error, ErrorKind, FencingToken, Operation, QueueName, Result};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::counter::{Counter, Numbering};
use crate::directory::{Locked, QueueDirectory};
use crate::errors::failed;
use crate::locked;
use crate::pipe::{Pipe, Vitality};
use crate::session::Inner;
use crate::shared_files::Patience;

/// How often an entry starts over because the directory was removed from under it: it takes another process that comes
/// and goes each time.
const REOPENS_MAX: u32 = 1_000;

/// How many entries of one session may wait to get into one queue; each is a caller with a future of its own.
const PENDING_MAX: usize = 100_000;

/// How often a reaper looks again at a queue that emptied while it looked.
const REAPS_MAX: u32 = 16;

/// An entry that was made.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) pipe: Arc<Pipe>,
    pub(crate) contenders: Arc<[Contender]>,
}

/// How an entry goes on.
#[derive(Debug)]
pub(crate) enum Entering {
    /// It is over.
    Done(Result<Joined>),
    /// A thread makes it and reports there.
    Later(oneshot::Receiver<Result<Joined>>),
}

/// The way into one queue.
#[derive(Debug)]
pub(crate) struct Gate {
    queue: QueueName,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Absent while a thread has it, or if nobody needed it yet.
    directory: Option<QueueDirectory>,
    /// Whether a thread serves this gate, or is about to: then every entry goes to it, so that none overtakes.
    served: bool,
    /// Whether the session has done with this queue.
    retired: bool,
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
struct Pending {
    entry: Entry,
    report: oneshot::Sender<Result<Joined>>,
}

/// What came of one attempt.
#[derive(Debug)]
enum Attempt {
    In(Joined),
    Busy,
    Withdrawn,
    /// The directory was removed from under us.
    Removed,
}

impl Gate {
    pub(crate) fn new(queue: QueueName) -> Self {
        Self { queue, state: Mutex::default() }
    }

    /// Makes an entry, or has it made.
    pub(crate) fn enter(self: &Arc<Self>, session: &Arc<Inner>, entry: Entry) -> Entering {
        let mut state = locked(&self.state);
        if state.retired {
            return Entering::Done(Err(closed()));
        }
        if !state.served {
            let attempt = self.attempt(session, &mut state.directory, session.counter(), &entry, Patience::Now);
            match conclude(attempt) {
                Some(outcome) => return Entering::Done(outcome),
                None => state.served = true,
            }
            let receiver = state.push(entry);
            drop(state);
            session.serve(self.clone());
            return Entering::Later(receiver);
        }
        if state.pending.len() >= PENDING_MAX {
            let message = format!("{PENDING_MAX} entries of this session wait to get into the queue already");
            return Entering::Done(Err(Error::transient(ErrorKind::LimitReached, Operation::Join, message)));
        }
        Entering::Later(state.push(entry))
    }

    /// Makes the entries that wait, until there is none; on a thread that may wait.
    pub(crate) fn serve(&self, session: &Arc<Inner>, counter: &Mutex<Counter>) {
        let mut directory = locked(&self.state).directory.take();
        let mut next = self.next_pending(session, &mut directory);
        while let Some(Pending { entry, report }) = next {
            let attempt = self.attempt(session, &mut directory, counter, &entry, Patience::Unbounded);
            let outcome = conclude(attempt).unwrap_or_else(|| Err(restless()));
            // The directory is given back before anybody hears of the entry, so that whoever then closes the session
            // finds it there to be removed.
            next = self.next_pending(session, &mut directory);
            if outcome.is_err() {
                session.forget(entry.ticket);
            }
            // Whoever asked may have gone; then the ticket is withdrawn, or will be.
            let _ = report.send(outcome);
        }
    }

    /// Refuses all who wait, because no thread could be had.
    pub(crate) fn refuse(&self, session: &Arc<Inner>, error: &Error) {
        let pending = {
            let mut state = locked(&self.state);
            state.served = false;
            std::mem::take(&mut state.pending)
        };
        for Pending { entry, report } in pending {
            session.forget(entry.ticket);
            let _ = report.send(Err(error.clone()));
        }
    }

    /// Ends the session's use of the queue: removes its directory, if nobody stands in it.
    pub(crate) fn retire(&self, session: &Inner) {
        let mut state = locked(&self.state);
        state.retired = true;
        // A thread that serves the gate has the directory, and reaps when it is done.
        if let Some(directory) = state.directory.take() {
            self.reap(session, directory);
        }
    }

    /// Returns the next entry to make; if there is none, the thread has done with this gate.
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
            self.reap(session, directory);
        }
        None
    }

    fn attempt(
        &self,
        session: &Inner,
        slot: &mut Option<QueueDirectory>,
        counter: &Mutex<Counter>,
        entry: &Entry,
        patience: Patience,
    ) -> Result<Attempt> {
        for _ in 0..REOPENS_MAX {
            let mut directory = match slot.take() {
                Some(directory) => directory,
                None => QueueDirectory::open(session.base(), &self.queue)
                    .map_err(|errno| self.failed(session, "enter the directory", errno))?,
            };
            let entered = match directory.lock(patience) {
                Ok(Locked::Ours) => {
                    let entered = self.enter_locked(session, &directory, counter, entry, patience);
                    directory.unlock();
                    entered
                }
                Ok(Locked::Busy) => Ok(Attempt::Busy),
                Ok(Locked::Removed) => Ok(Attempt::Removed),
                Err(errno) => Err(self.failed(session, "lock the directory", errno)),
            };
            if !matches!(entered, Ok(Attempt::Removed)) {
                *slot = Some(directory);
                return entered;
            }
        }
        Err(restless())
    }

    /// Makes an entry; under the queue's lock.
    fn enter_locked(
        &self,
        session: &Inner,
        directory: &QueueDirectory,
        counter: &Mutex<Counter>,
        entry: &Entry,
        patience: Patience,
    ) -> Result<Attempt> {
        let listing = match directory.list() {
            Err(Errno::NOENT) => return Ok(Attempt::Removed),
            listing => listing.map_err(|errno| self.failed(session, "list the directory", errno))?,
        };
        for temporary in &listing.temporaries {
            // Left by one who died here, since nobody else prepares a name under our lock.
            let _ = directory.remove(temporary);
        }
        // Nobody may come in ahead of those who stand there, even if the counter was lost and the clock set back.
        let floor = listing.contenders.last().map_or(0, |last| last.token.as_u64());
        let Numbering::Number(number) = locked(counter).next(floor, patience)? else {
            return Ok(Attempt::Busy);
        };
        let token = FencingToken::new(number, 0).ok_or_else(|| {
            Error::permanent(ErrorKind::LimitReached, Operation::Join, "the counter gave a number that is no token")
        })?;
        if !session.table().begin(entry.ticket) {
            return Ok(Attempt::Withdrawn);
        }
        let pipe = match Pipe::enter(directory, token, entry) {
            Ok(pipe) => Arc::new(pipe),
            Err(Errno::NOENT) => {
                session.table().retreat(entry.ticket);
                return Ok(Attempt::Removed);
            }
            Err(errno) => return Err(self.failed(session, "make a contender in", errno)),
        };
        if !session.table().settle(entry.ticket, &pipe) {
            pipe.leave().map_err(|errno| self.failed(session, "withdraw a contender from", errno))?;
            return Ok(Attempt::Withdrawn);
        }
        let own = pipe.name().contender();
        let contenders = listing.contenders.iter().map(|name| name.contender()).chain([own]).collect();
        Ok(Attempt::In(Joined { pipe, contenders }))
    }

    /// Removes the directory if nobody alive stands in it, and the dead in any case.
    fn reap(&self, session: &Inner, mut directory: QueueDirectory) {
        for _ in 0..REAPS_MAX {
            match directory.lock(Patience::Now) {
                Ok(Locked::Ours) => {}
                // Whoever has the lock is entering, and reaps in the end; or is reaping, and looks again.
                Ok(Locked::Busy | Locked::Removed) => return,
                Err(errno) => return self.not_reaped(errno),
            }
            let outcome = self.reap_locked(session, &directory);
            directory.unlock();
            match outcome {
                Ok(Reaped::Removed) => return,
                // Somebody who left while we had the lock could not reap; so it is on us.
                Ok(Reaped::Inhabited) if directory.list().is_ok_and(|listing| listing.contenders.is_empty()) => {}
                Ok(Reaped::Inhabited) => return,
                Err(errno) => return self.not_reaped(errno),
            }
        }
    }

    fn reap_locked(&self, session: &Inner, directory: &QueueDirectory) -> Result<Reaped, Errno> {
        let listing = directory.list()?;
        let mut inhabited = false;
        for name in &listing.contenders {
            match session.looker().look_at(directory.directory(), name)? {
                Some(Vitality::Alive) => inhabited = true,
                Some(Vitality::Dead | Vitality::Left) => directory.remove(name.as_str())?,
                None => {}
            }
        }
        if inhabited {
            return Ok(Reaped::Inhabited);
        }
        directory.remove_all(&self.path(session), &listing.temporaries)?;
        Ok(Reaped::Removed)
    }

    fn not_reaped(&self, errno: Errno) {
        tracing::debug!(queue = %self.queue, %errno, "could not remove the empty directory of a queue");
    }

    fn failed(&self, session: &Inner, what: &str, errno: Errno) -> Error {
        failed(Operation::Join, what, &self.path(session), errno)
    }

    fn path(&self, session: &Inner) -> PathBuf {
        session.base().queue_path(&self.queue)
    }
}

/// What a reaper found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reaped {
    Removed,
    Inhabited,
}

impl State {
    fn push(&mut self, entry: Entry) -> oneshot::Receiver<Result<Joined>> {
        let (report, receiver) = oneshot::channel();
        self.pending.push_back(Pending { entry, report });
        receiver
    }
}

/// The outcome of an attempt; `None` if it has to be made by one who may wait.
fn conclude(attempt: Result<Attempt>) -> Option<Result<Joined>> {
    match attempt {
        Ok(Attempt::In(joined)) => Some(Ok(joined)),
        Ok(Attempt::Busy) => None,
        Ok(Attempt::Withdrawn) => {
            let message = "the entry was withdrawn while it was under way";
            Some(Err(Error::permanent(ErrorKind::Closed, Operation::Join, message)))
        }
        Ok(Attempt::Removed) => Some(Err(restless())),
        Err(error) => Some(Err(error)),
    }
}

fn restless() -> Error {
    let message = "the queue's directory is made and removed again and again";
    Error::transient(ErrorKind::Backend, Operation::Join, message)
}

fn closed() -> Error {
    Error::permanent(ErrorKind::Closed, Operation::Join, "the session was closed")
}
