//! The service: its state, and the path of requests and replies, with faults.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use tokio::task::coop;

use crate::backend::Withdrawal;
use crate::capabilities::{Capabilities, Exclusion, Fencing, Removal, StoppedHolder};
use crate::clock::Clock;
use crate::contender::Ticket;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::future::BoxFuture;
use crate::liveness::LossReason;
use crate::liveness::SafeUntil;
use crate::memory::queue::MemoryQueues;
use crate::name::QueueName;
use crate::session_bond::SessionBond;
use crate::view::ConnectionNumber;

pub(super) const CAPABILITIES: Capabilities =
    Capabilities::new("memory", Exclusion::Process, Fencing::Process, StoppedHolder::Keeps, Removal::Told)
        .answering_at_once();

/// The most requests that wait in a paused service; more are refused, since a test that needs more has a bug.
const PAUSED_REQUESTS_MAX: usize = 100_000;

/// A coordination service within this process. Its clones are the same service.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper::clock::SystemClock;
/// use lockkeeper::testing::MemoryService;
///
/// let service = MemoryService::new(Arc::new(SystemClock));
/// let (ann, bob) = (service.keeper(), service.keeper());
/// # let _ = (ann, bob);
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<ServiceShared>,
}

struct ServiceShared {
    clock: Arc<dyn Clock>,
    state: Mutex<ServiceState>,
}

type PausedRequest = Box<dyn FnOnce(&mut ServiceState) + Send>;

#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) queues: MemoryQueues,
    pub(super) links: BTreeMap<u64, MemoryLink>,
    last_session: u64,
    paused: bool,
    waiting: VecDeque<PausedRequest>,
    drop_next_reply: Option<Operation>,
}

/// The service's side of one session, and the connection to it.
pub(super) struct MemoryLink {
    pub(super) bond: SessionBond,
    way: ServiceWay,
    /// Tells the waiters of another way.
    ways: watch::Sender<ServiceWay>,
    /// Withdrawals made while the connection was cut, to be done when it heals.
    owed: Vec<PausedRequest>,
    /// Whether the client ended the session while the connection was cut, so that the service must still be told.
    abandoned: bool,
}

/// The connection between a client and the service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ServiceWay {
    /// The connection's number: another one after each cut.
    pub(super) connection: u64,
    pub(super) cut: bool,
}

impl MemoryStore {
    /// Starts an empty service that reads this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(ServiceShared { clock, state: Mutex::default() }) }
    }

    /// Returns the clock that the service reads.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.shared.state.lock()
    }

    /// Opens a session and returns its number.
    pub(super) fn open_session(&self) -> (u64, SessionBond) {
        let bond = SessionBond::new(self.shared.clock.clone(), SafeUntil::ProcessEnd);
        let mut state = self.state();
        state.last_session += 1;
        let number = state.last_session;
        let way = ServiceWay { connection: 1, cut: false };
        let ways = watch::Sender::new(way);
        let link = MemoryLink { bond: bond.clone(), way, ways, owed: Vec::new(), abandoned: false };
        state.links.insert(number, link);
        (number, bond)
    }

    /// Ends a session on the service's side.
    pub(super) fn end_session(&self, number: u64, reason: LossReason) {
        self.state().end_session(number, reason);
    }

    /// Ends a session on its client's side. The service is told now, or when the connection heals.
    pub(super) fn hang_up(&self, number: u64) {
        let mut state = self.state();
        match state.links.get_mut(&number).filter(|link| link.way.cut) {
            Some(link) => {
                link.bond.lose(LossReason::Closed);
                link.abandoned = true;
            }
            None => state.end_session(number, LossReason::Closed),
        }
    }

    pub(super) fn cut(&self, number: u64, safe_until: SafeUntil) {
        if let Some(link) = self.state().links.get_mut(&number) {
            link.bond.jeopardize(safe_until);
            link.go(ServiceWay { cut: true, ..link.way });
        }
    }

    pub(super) fn heal(&self, number: u64) {
        let mut state = self.state();
        let Some(link) = state.links.get_mut(&number).filter(|link| link.way.cut) else {
            return;
        };
        if link.abandoned {
            state.end_session(number, LossReason::Closed);
            return;
        }
        link.bond.renew(SafeUntil::ProcessEnd);
        let owed = std::mem::take(&mut link.owed);
        link.go(ServiceWay { connection: link.way.connection + 1, cut: false });
        for request in owed {
            state.take(request);
        }
    }

    pub(super) fn pause(&self) {
        self.state().paused = true;
    }

    pub(super) fn resume(&self) {
        let mut state = self.state();
        state.paused = false;
        while let Some(request) = state.waiting.pop_front() {
            request(&mut state);
        }
    }

    pub(super) fn drop_next_reply(&self, operation: Operation) {
        self.state().drop_next_reply = Some(operation);
    }

    /// Sends a request of a session: it takes effect now, or, if the service is paused, when it goes on.
    pub(super) fn request<T: Send + 'static>(
        &self,
        session: u64,
        operation: Operation,
        effect: impl FnOnce(&mut ServiceState, ConnectionNumber) -> Result<T> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let mut state = self.state();
        let Some(link) = state.links.get(&session) else {
            return refuse(lost(operation));
        };
        if link.way.cut {
            return refuse(unreachable(operation));
        }
        let sent_on = link.connection();
        if state.paused {
            return state.later(session, sent_on, operation, effect);
        }
        let outcome = effect(&mut state, sent_on);
        let outcome = if state.loses_reply(operation) { Err(reply_lost(operation)) } else { outcome };
        drop(state);
        Box::pin(async move {
            // A task that asks again and again gives other tasks of its thread their turn, as if it had to wait.
            coop::consume_budget().await;
            outcome
        })
    }

    /// Makes a withdrawal certain: now, when the service goes on, or when the connection heals. If the session ends
    /// first, its contenders end with it. The answer comes when either is certain.
    pub(super) fn withdraw(&self, session: u64, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let mut state = self.state();
        let paused = state.paused;
        let Some(link) = state.links.get_mut(&session) else {
            return Withdrawal::done(Ok(()));
        };
        let cut = link.way.cut;
        if !cut && !paused {
            state.queues.remove(queue, ticket);
            return Withdrawal::done(Ok(()));
        }
        let (done, certain) = oneshot::channel();
        let queue = queue.clone();
        let request: PausedRequest = Box::new(move |state| {
            state.queues.remove(&queue, ticket);
            // The caller need not wait for it.
            let _ = done.send(());
        });
        let bond = link.bond.clone();
        if cut {
            link.owed.push(request);
        } else {
            state.take(request);
        }
        Withdrawal::under_way(Box::pin(async move {
            tokio::select! {
                biased;
                // An error means that the session ended before it was done.
                _ = certain => {}
                _ = bond.lost() => {}
            }
            Ok(())
        }))
    }
}

impl ServiceState {
    /// Keeps a request until the service goes on.
    fn later<T: Send + 'static>(
        &mut self,
        session: u64,
        sent_on: ConnectionNumber,
        operation: Operation,
        effect: impl FnOnce(&mut Self, ConnectionNumber) -> Result<T> + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let Some(link) = self.links.get(&session) else {
            return refuse(lost(operation));
        };
        if self.waiting.len() >= PAUSED_REQUESTS_MAX {
            let message = format!("{PAUSED_REQUESTS_MAX} requests wait in the paused service");
            return refuse(Error::transient(ErrorKind::LimitReached, operation, message));
        }
        let (bond, mut way) = (link.bond.clone(), link.watch());
        let (reply, answer) = oneshot::channel();
        self.waiting.push_back(Box::new(move |state| {
            // A request of a session that ended while it waited has no effect.
            let Some(link) = state.links.get(&session) else {
                return;
            };
            let (connection, arrives) = (link.connection(), link.leads_back(sent_on));
            let outcome = effect(state, connection);
            let is_lost = state.loses_reply(operation) || !arrives;
            // The caller may have given up.
            let _ = reply.send(if is_lost { Err(reply_lost(operation)) } else { outcome });
        }));
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(lost(operation))),
                _ = bond.lost() => Err(lost(operation)),
                _ = way.wait_for(|way| !way.leads_back(sent_on)) => Err(reply_lost(operation)),
            }
        })
    }

    /// Tells whether the reply to this request is the one to be lost.
    fn loses_reply(&mut self, operation: Operation) -> bool {
        self.drop_next_reply.take_if(|lost| *lost == operation).is_some()
    }

    /// Performs a request that arrived, or queues it while the service is paused.
    fn take(&mut self, request: PausedRequest) {
        if self.paused {
            self.waiting.push_back(request);
        } else {
            request(self);
        }
    }

    fn end_session(&mut self, number: u64, reason: LossReason) {
        if let Some(link) = self.links.remove(&number) {
            link.bond.lose(reason);
        }
        self.queues.remove_session(number);
    }
}

impl MemoryLink {
    fn connection(&self) -> ConnectionNumber {
        ConnectionNumber(self.way.connection)
    }

    fn leads_back(&self, sent_on: ConnectionNumber) -> bool {
        self.way.leads_back(sent_on)
    }

    /// Watches for another way.
    pub(super) fn watch(&self) -> watch::Receiver<ServiceWay> {
        self.ways.subscribe()
    }

    fn go(&mut self, way: ServiceWay) {
        self.way = way;
        self.ways.send_replace(way);
    }
}

impl ServiceWay {
    /// Tells whether what is sent now arrives on this connection.
    pub(super) const fn leads_back(self, connection: ConnectionNumber) -> bool {
        !self.cut && self.connection == connection.0
    }
}

pub(super) fn unreachable(operation: Operation) -> Error {
    Error::transient(ErrorKind::ConnectionLost, operation, "the connection to the service is cut")
}

fn reply_lost(operation: Operation) -> Error {
    Error::unknown(ErrorKind::ConnectionLost, operation, "the reply was lost")
}

pub(super) fn lost(operation: Operation) -> Error {
    Error::transient(ErrorKind::Lost(LossReason::Expired), operation, "the session has ended")
}

pub(super) fn refuse<T: Send + 'static>(error: Error) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(Err(error)))
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MemoryStore")
    }
}
