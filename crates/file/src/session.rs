//! A session: the traits of the core, implemented over a directory.

use std::sync::Arc;
use std::task::Poll;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Expected,
    Extent, Freshness, LossReason, Operation, QueueName, QueueView, Request, Result, Session, SessionBond, Standing,
    Ticket, Value, ValueVersion, Values, Withdrawal,
};
use parking_lot::Mutex;

use crate::base::Base;
use crate::counter::{BootId, Counter};
use crate::departure::PredecessorFile;
use crate::entering::{self, Course};
use crate::gate::{FileJoin, JoinedEntries, QueueGate, WriteCall};
use crate::inner::{FileSessionState, lost, report_leaving};
use crate::pipe::Looker;
use crate::standing::FileStanding;
use crate::table::WithdrawalStep;
use crate::watch::SessionWatches;
use crate::{changes, frozen, request, value};

/// A session of the file backend; see [`FileBackend`](crate::FileBackend).
#[derive(Debug)]
pub(crate) struct FileSession {
    inner: Arc<FileSessionState>,
    watches: Arc<SessionWatches>,
    /// Whether there was no counter that we could write when the session was opened.
    looks_only: bool,
}

impl FileSession {
    /// Opens a session, and makes nothing. If we may not write in the directory, it can only observe, and its joins are
    /// refused.
    pub(crate) fn open(
        base: Arc<Base>,
        looker: Arc<Looker>,
        counter: Arc<Mutex<Counter>>,
        boot: BootId,
    ) -> Result<Self> {
        let looks_only = !counter.lock().open_if_there()?;
        let watches = Arc::new(SessionWatches::new(base.clock.clone()));
        Ok(Self { inner: Arc::new(FileSessionState::new(base, looker, counter, boot)), watches, looks_only })
    }

    /// Refuses a write, naming the directory, unless we may write there by now.
    fn check_access(&self) -> Result<()> {
        if self.looks_only { self.inner.counter.lock().open() } else { Ok(()) }
    }

    fn join(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        let joining = FileJoin { queue: queue.clone(), entries };
        let tickets: Vec<_> = joining.tickets().collect();
        let admitted = self.inner.table().admit(&tickets, queue);
        let Ok(gate) = admitted else {
            return ready(Err(lost(LossReason::Closed, Operation::Join)));
        };
        match entering::join(&self.inner, &gate, joining) {
            Course::Done(Ok(joined)) => ready(Ok(enqueued(&self.inner, joined, &self.watches))),
            Course::Done(Err(error)) => {
                tickets.into_iter().for_each(|ticket| self.inner.forget(ticket));
                ready(Err(error))
            }
            Course::Later(report) => {
                let (inner, watches) = (self.inner.clone(), self.watches.clone());
                Box::pin(async move {
                    let joined = report.await.map_err(|_| lost(LossReason::Closed, Operation::Join))??;
                    Ok(enqueued(&inner, joined, &watches))
                })
            }
        }
    }
}

impl Session for FileSession {
    fn bond(&self) -> &SessionBond {
        &self.inner.bond
    }

    fn is_held_up(&self, queue: &QueueName) -> bool {
        self.inner.table().is_held_up(queue)
    }

    fn view(&self, queue: &QueueName, _freshness: Freshness, _extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        ready(self.inner.view(queue))
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        match check(&entries).and_then(|()| self.check_access()) {
            Ok(()) if entries.is_empty() => ready(Ok(Vec::new())),
            Ok(()) => self.join(queue, entries),
            Err(error) => ready(Err(error)),
        }
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        _seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        match PredecessorFile::find(&self.inner, queue, ahead, mine) {
            Ok(PredecessorFile::Told(departure)) => ready(Ok(departure)),
            Ok(ahead) => Box::pin(ahead.leaves(self.inner.clone(), self.watches.clone(), queue.clone())),
            Err(error) => ready(Err(error)),
        }
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        let (asked, seen) = (queue.clone(), seen.clone());
        let look = move |inner: &FileSessionState| {
            let view = inner.view(&asked)?;
            let is_changed = view.contenders != seen.contenders || view.elsewhere != seen.elsewhere;
            Ok(is_changed.then_some(view))
        };
        Box::pin(changes::until(self.inner.clone(), self.watches.clone(), queue.clone(), look))
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        ready(request::ask(&self.inner, queue, contender, request))
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let (leaving, retired) = self.inner.table().withdraw(queue, ticket);
        let withdrawal = match leaving {
            WithdrawalStep::Over => Withdrawal::done(Ok(())),
            // It may be one that outlived the session that made it.
            WithdrawalStep::Unknown => Withdrawal::done(request::thaw(&self.inner, queue, ticket)),
            WithdrawalStep::Leave(pipe) => Withdrawal::done(report_leaving(pipe.leave(), pipe.name())),
            WithdrawalStep::Undone(undone) => Withdrawal::under_way(Box::pin(async move {
                // The other end is dropped when the entry is undone.
                let _ = undone.await;
                Ok(())
            })),
        };
        if let Some(gate) = retired {
            gate.retire(&self.inner.looker);
        }
        withdrawal
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let retired = self.inner.table().keep(queue, ticket);
        if let Some(gate) = retired {
            gate.retire(&self.inner.looker);
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let (undone, gates, outcome) = self.inner.end();
        let inner = self.inner.clone();
        Box::pin(async move {
            let done = async {
                for report in undone {
                    // The other end is dropped when the entry is undone.
                    let _ = report.await;
                }
            };
            tokio::select! {
                biased;
                () = done => {}
                // It is unknown when what waits there could be written; so it never is.
                () = one_is_stuck(&gates, &*inner.base.clock) => inner.table().abandon_writes(),
            }
            outcome
        })
    }
}

impl Values for FileSession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        ready(value::read(&self.inner, queue))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        let checked = value::check(value.as_deref()).and_then(|()| self.check_access());
        let ticket = match checked.and_then(|()| Ticket::mint()) {
            Ok(ticket) => ticket,
            Err(error) => return ready(Err(error)),
        };
        let admitted = self.inner.table().admit_write(ticket, queue);
        let Ok(gate) = admitted else {
            return ready(Err(lost(LossReason::Closed, Operation::Value)));
        };
        match entering::write(&self.inner, &gate, WriteCall { queue: queue.clone(), ticket, expected, value }) {
            Course::Done(outcome) => {
                self.inner.forget(ticket);
                ready(outcome)
            }
            Course::Later(report) => {
                Box::pin(async move { report.await.map_err(|_| lost(LossReason::Closed, Operation::Value))? })
            }
        }
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        let asked = queue.clone();
        let look = move |inner: &FileSessionState| {
            let value = value::read(inner, &asked)?;
            let is_changed = value.as_ref().map(|value| value.version) != seen;
            Ok(is_changed.then_some(value))
        };
        Box::pin(changes::until(self.inner.clone(), self.watches.clone(), queue.clone(), look))
    }
}

/// A session that is not used any more is closed.
impl Drop for FileSession {
    fn drop(&mut self) {
        // No caller is left to be told; what could not be unlinked is dead.
        let _ = self.inner.end();
    }
}

/// Waits until one of the gates is held up by a process that must be stopped.
async fn one_is_stuck(gates: &[Arc<QueueGate>], clock: &dyn Clock) {
    let mut stuck: Vec<_> = gates.iter().map(|gate| Box::pin(gate.is_stuck(clock))).collect();
    std::future::poll_fn(|context| {
        let is_one = stuck.iter_mut().any(|gate| gate.as_mut().poll(context).is_ready());
        if is_one { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn check(entries: &[Entry]) -> Result<()> {
    if entries.len() > ENTRIES_MAX {
        let message = format!("at most {ENTRIES_MAX} entries in one call");
        return Err(Error::permanent(ErrorKind::LimitReached, Operation::Join, message));
    }
    entries.iter().try_for_each(|entry| frozen::check(&entry.lifetime))
}

fn enqueued(session: &Arc<FileSessionState>, joined: JoinedEntries, watches: &Arc<SessionWatches>) -> Vec<Enqueued> {
    let JoinedEntries { pipes, view } = joined;
    let one = |pipe: Arc<crate::pipe::Pipe>| {
        let (id, token) = (pipe.name().id(), pipe.name().token());
        let standing: Arc<dyn Standing> = Arc::new(FileStanding::new(session, pipe, watches.clone()));
        Enqueued { id, token, view: view.clone(), standing }
    };
    pipes.into_iter().map(one).collect()
}

fn ready<T: Send + 'static>(outcome: Result<T>) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(outcome))
}
