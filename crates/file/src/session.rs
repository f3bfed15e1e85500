//! A session: the places that this process has, and the waiting for those ahead.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Enqueued, Entry, Error, ErrorKind, Liveness, LossReason, Operation, QueueName,
    QueueView, Result, SafeUntil, Session, SessionBond, Ticket, Version, Withdrawal,
};
use rustix::fs::CWD;
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

use crate::base::Base;
use crate::counter::{BootId, Counter};
use crate::directory;
use crate::entry_name::EntryName;
use crate::errors::{errno_of, failed};
use crate::gate::{Entering, Gate, Joined};
use crate::locked;
use crate::pipe::{Looker, Vitality, open_reader};
use crate::shared_files;
use crate::standing::FileStanding;
use crate::table::{Leaving, Remains, Table};
use crate::watch::Watches;

/// How many threads of one session may wait for other processes at the same time; further queues wait for one of them.
///
/// Such a thread lives for as long as somebody else is entering a queue: a few system calls, unless that one is stopped
/// in the midst of them.
const HELPERS_MAX: usize = 16;

/// The stack of such a thread, in bytes: it calls nothing deep, and keeps one listing's buffer there.
const HELPER_STACK_BYTES: usize = 256 * 1024;

/// There is only one connection to a directory.
const VERSION: Version = Version(0);

/// What all parts of a session share; threads that make its entries hold it as well.
pub(crate) struct Inner {
    base: Arc<Base>,
    looker: Arc<Looker>,
    /// Shared by all sessions of the backend, for those who do not wait.
    counter: Arc<Mutex<Counter>>,
    boot: BootId,
    bond: SessionBond,
    table: Mutex<Table>,
    helpers: Mutex<Helpers>,
}

#[derive(Debug, Default)]
struct Helpers {
    running: usize,
    waiting: VecDeque<Arc<Gate>>,
}

impl Inner {
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    pub(crate) fn looker(&self) -> &Looker {
        &self.looker
    }

    pub(crate) fn counter(&self) -> &Mutex<Counter> {
        &self.counter
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    /// Forgets a ticket whose entry was not made.
    pub(crate) fn forget(&self, ticket: Ticket) {
        let retired = self.table().forget(ticket);
        if let Some(gate) = retired {
            gate.retire(self);
        }
    }

    /// Has a gate served by a thread that may wait.
    pub(crate) fn serve(self: &Arc<Self>, gate: Arc<Gate>) {
        {
            let mut helpers = locked(&self.helpers);
            if helpers.running >= HELPERS_MAX {
                helpers.waiting.push_back(gate);
                return;
            }
            helpers.running += 1;
        }
        let (session, served) = (self.clone(), gate.clone());
        let builder = std::thread::Builder::new().name("lockkeeper-file".to_owned()).stack_size(HELPER_STACK_BYTES);
        if let Err(source) = builder.spawn(move || session.help(served)) {
            locked(&self.helpers).running -= 1;
            let message = "no thread could be had to wait for another process";
            let error = Error::transient(ErrorKind::LimitReached, Operation::Join, message).caused_by(source);
            gate.refuse(self, &error);
        }
    }

    fn help(self: Arc<Self>, mut gate: Arc<Gate>) {
        // Its own opening of the counter: a flock is shared by all who use one opening.
        let counter = Mutex::new(Counter::new(self.base.clone(), self.boot));
        loop {
            gate.serve(&self, &counter);
            let mut helpers = locked(&self.helpers);
            match helpers.waiting.pop_front() {
                Some(next) => gate = next,
                None => {
                    helpers.running -= 1;
                    return;
                }
            }
        }
    }

    fn check_bond(&self, operation: Operation) -> Result<()> {
        match self.bond.liveness() {
            Liveness::Lost(reason) => Err(lost(reason, operation)),
            _ => Ok(()),
        }
    }

    fn enqueued(&self, joined: Joined, watches: &Arc<Watches>) -> Enqueued {
        let Joined { pipe, contenders } = joined;
        Enqueued {
            id: pipe.name().id(),
            token: pipe.name().token,
            view: QueueView::new(VERSION, contenders),
            standing: Arc::new(FileStanding::new(self.bond.clone(), pipe, watches.clone(), self.base.clock().clone())),
        }
    }

    fn view(&self, queue: &QueueName) -> Result<QueueView> {
        self.check_bond(Operation::View)?;
        let path = self.base.queue_path(queue);
        let fail = |errno| failed(Operation::View, "list the directory", &path, errno);
        let opened = match shared_files::open_directory(&path) {
            Err(Errno::NOENT) => return Ok(QueueView::new(VERSION, [])),
            opened => opened.map_err(fail)?,
        };
        let mut contenders = Vec::new();
        for name in directory::list(opened.as_fd()).map_err(fail)?.contenders {
            if self.table().stands(name.ticket) || self.is_alive(&opened, &name).map_err(fail)? {
                contenders.push(name.contender());
            }
        }
        Ok(QueueView::new(VERSION, contenders))
    }

    /// Tells whether a contender is alive, and removes it if it is dead.
    fn is_alive(&self, directory: &OwnedFd, name: &EntryName) -> Result<bool, Errno> {
        match self.looker.look_at(directory, name)? {
            Some(Vitality::Alive) => Ok(true),
            Some(Vitality::Dead) => {
                // If we may not, it stays dead for everybody who looks.
                let _ = rustix::fs::unlinkat(directory, name.as_str(), rustix::fs::AtFlags::empty());
                Ok(false)
            }
            Some(Vitality::Left) | None => Ok(false),
        }
    }

    /// Opens the contender ahead; `None` if it is gone.
    fn open_ahead(&self, path: &Path, ahead: &ContenderId) -> Result<Option<OwnedFd>> {
        self.check_bond(Operation::Wait)?;
        if EntryName::parse(ahead.as_str()).is_none() {
            let message = format!("{ahead} is not the name of a contender in a directory");
            return Err(Error::permanent(ErrorKind::Backend, Operation::Wait, message));
        }
        let fail = |errno| failed(Operation::Wait, "watch the contender", path, errno);
        match open_reader(CWD, path) {
            Ok(reader) => Ok(self.still_there(&reader, path).map_err(fail)?.then_some(reader)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// Looks at the contender ahead, and removes it if it is dead.
    fn still_there(&self, reader: impl AsFd, path: &Path) -> Result<bool, Errno> {
        match self.looker.look(reader.as_fd())? {
            Vitality::Alive => Ok(true),
            Vitality::Left => Ok(false),
            Vitality::Dead => {
                // A name is never used twice, so this removes the dead one and nobody else.
                let _ = rustix::fs::unlink(path);
                Ok(false)
            }
        }
    }

    async fn await_departure(&self, reader: OwnedFd, path: PathBuf) -> Result<Departure> {
        let fail = |errno| failed(Operation::Wait, "watch the contender", &path, errno);
        let watched = Receiver::from_owned_fd_unchecked(reader).map_err(|error| fail(errno_of(&error)))?;
        loop {
            watched.readable().await.map_err(|error| fail(errno_of(&error)))?;
            let looked = watched.try_io(|| match self.still_there(&watched, &path)? {
                true => Err(Errno::WOULDBLOCK.into()),
                false => Ok(Departure::Gone),
            });
            match looked {
                // The runtime forgets that it was ready, and tells us of the next change.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                looked => return looked.map_err(|error| fail(errno_of(&error))),
            }
        }
    }

    /// Ends everything; returns what is still being undone, and the first failure.
    fn end(&self) -> (Vec<oneshot::Receiver<()>>, Result<()>) {
        self.bond.lose(LossReason::Closed);
        let Remains { pipes, undone, gates } = self.table().close();
        let mut outcome = Ok(());
        for pipe in pipes {
            let left = report_leaving(pipe.leave(), pipe.name());
            outcome = outcome.and(left);
        }
        for gate in gates {
            gate.retire(self);
        }
        (undone, outcome)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inner")
            .field("base", &self.base.path())
            .field("bond", &self.bond)
            .finish_non_exhaustive()
    }
}

/// A session of the file backend; see [`FileBackend`](crate::FileBackend).
#[derive(Debug)]
pub(crate) struct FileSession {
    inner: Arc<Inner>,
    watches: Arc<Watches>,
}

impl FileSession {
    /// Opens a session; fails if we may not write in the directory.
    pub(crate) fn open(
        base: Arc<Base>,
        looker: Arc<Looker>,
        counter: Arc<Mutex<Counter>>,
        boot: BootId,
    ) -> Result<Self> {
        locked(&counter).open()?;
        let bond = SessionBond::new(base.clock().clone(), SafeUntil::ProcessEnd);
        let (table, helpers) = (Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner { base, looker, counter, boot, bond, table, helpers });
        Ok(Self { inner, watches: Arc::default() })
    }
}

impl Session for FileSession {
    fn bond(&self) -> &SessionBond {
        &self.inner.bond
    }

    fn view(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>> {
        ready(self.inner.view(queue))
    }

    fn enqueue(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        let ticket = entry.ticket;
        let admitted = self.inner.table().admit(ticket, queue);
        let Ok(gate) = admitted else {
            return ready(Err(lost(LossReason::Closed, Operation::Join)));
        };
        match gate.enter(&self.inner, entry) {
            Entering::Done(Ok(joined)) => ready(Ok(self.inner.enqueued(joined, &self.watches))),
            Entering::Done(Err(error)) => {
                self.inner.forget(ticket);
                ready(Err(error))
            }
            Entering::Later(report) => {
                let (inner, watches) = (self.inner.clone(), self.watches.clone());
                Box::pin(async move {
                    let joined = report.await.map_err(|_| lost(LossReason::Closed, Operation::Join))??;
                    Ok(inner.enqueued(joined, &watches))
                })
            }
        }
    }

    fn departure(
        &self,
        queue: &QueueName,
        _mine: Option<&ContenderId>,
        ahead: &ContenderId,
        _seen: Version,
    ) -> BoxFuture<Result<Departure>> {
        let path = self.inner.base.queue_path(queue).join(ahead.as_str());
        let reader = match self.inner.open_ahead(&path, ahead) {
            Ok(Some(reader)) => reader,
            Ok(None) => return ready(Ok(Departure::Gone)),
            Err(error) => return ready(Err(error)),
        };
        let inner = self.inner.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                reason = inner.bond.lost() => Err(lost(reason, Operation::Wait)),
                departure = inner.await_departure(reader, path) => departure,
            }
        })
    }

    fn withdraw(&self, _queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let (leaving, retired) = self.inner.table().withdraw(ticket);
        let withdrawal = match leaving {
            Leaving::Over => Withdrawal::done(Ok(())),
            Leaving::Leave(pipe) => Withdrawal::done(report_leaving(pipe.leave(), pipe.name())),
            Leaving::Undone(undone) => Withdrawal::under_way(Box::pin(async move {
                // The other end is dropped when the entry is undone.
                let _ = undone.await;
                Ok(())
            })),
        };
        if let Some(gate) = retired {
            gate.retire(&self.inner);
        }
        withdrawal
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let (undone, outcome) = self.inner.end();
        Box::pin(async move {
            for report in undone {
                // The other end is dropped when the entry is undone.
                let _ = report.await;
            }
            outcome
        })
    }
}

/// A session that nobody has any more is closed.
impl Drop for FileSession {
    fn drop(&mut self) {
        // Nobody is left to be told; what could not be unlinked is dead.
        let _ = self.inner.end();
    }
}

fn ready<T: Send + 'static>(outcome: Result<T>) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(outcome))
}

/// A contender that could not be unlinked is closed all the same, so it counts as dead and others remove it.
fn report_leaving(outcome: Result<(), Errno>, name: &EntryName) -> Result<()> {
    outcome.map_err(|errno| failed(Operation::Leave, "remove the contender", Path::new(name.as_str()), errno))
}

fn lost(reason: LossReason, operation: Operation) -> Error {
    match reason {
        LossReason::Closed => Error::permanent(ErrorKind::Closed, operation, reason.to_string()),
        reason => Error::transient(ErrorKind::Lost(reason), operation, reason.to_string()),
    }
}
