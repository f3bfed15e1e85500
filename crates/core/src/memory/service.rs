//! The service: its state, and how a request reaches it and a reply comes back, or does not.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::contender::Version;
use crate::memory::queue::Queues;
use crate::memory::session::MemoryBackend;
use crate::memory::testing::Testing;
use crate::{
    Backend, BoxFuture, Capabilities, Error, ErrorKind, Exclusion, Fencing, Keeper, KeeperBuilder, LossReason,
    Operation, Result, SafeUntil, SessionBond, StoppedHolder,
};

pub(super) const CAPABILITIES: Capabilities =
    Capabilities::new("memory", Exclusion::Process, Fencing::Process, StoppedHolder::Keeps);

/// The most requests that wait in a paused service; more are refused, since a test that needs more has a fault.
const PAUSED_REQUESTS_MAX: usize = 100_000;

/// A coordination service within this process. Its clones are the same service.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper_core::clock::SystemClock;
/// use lockkeeper_core::memory::MemoryService;
///
/// let service = MemoryService::new(Arc::new(SystemClock));
/// let (ann, bob) = (service.keeper(), service.keeper());
/// # let _ = (ann, bob);
/// ```
#[derive(Clone)]
pub struct MemoryService {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

type PausedRequest = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) queues: Queues,
    pub(super) links: BTreeMap<u64, Link>,
    last_session: u64,
    paused: bool,
    waiting: VecDeque<PausedRequest>,
    drop_next_reply: Option<Operation>,
}

/// The service's side of one session, and the way to it.
pub(super) struct Link {
    pub(super) bond: SessionBond,
    /// The connection's number: another one after each cut.
    pub(super) connection: watch::Sender<u64>,
    pub(super) cut: bool,
    /// What was withdrawn while the way was cut, to be done when it heals.
    pub(super) owed: Vec<PausedRequest>,
}

impl MemoryService {
    /// Starts an empty service that reads this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { clock, state: Mutex::default() }) }
    }

    /// Opens a keeper: an independent client of this service, with its own session.
    pub fn keeper(&self) -> Keeper {
        self.keeper_builder().build()
    }

    /// Starts a keeper of this service.
    pub fn keeper_builder(&self) -> KeeperBuilder {
        let (backend, testing) = self.client();
        Keeper::builder(backend).clock(self.shared.clock.clone()).testing(testing)
    }

    /// Opens an independent client of this service without a keeper: its side of the waist, and what makes things go wrong
    /// for it. For tests that put a [`Backend`] of their own in between.
    pub fn client(&self) -> (Arc<dyn Backend>, Testing) {
        let backend = Arc::new(MemoryBackend::new(self.clone()));
        let testing = Testing::new(self.clone(), backend.clone());
        (backend, testing)
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Nothing panics while the state is locked, so what a panic elsewhere left here is whole.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session and returns its number.
    pub(super) fn open_session(&self) -> (u64, SessionBond) {
        let bond = SessionBond::new(self.shared.clock.clone(), SafeUntil::ProcessEnd);
        let mut state = self.state();
        state.last_session += 1;
        let number = state.last_session;
        let link = Link { bond: bond.clone(), connection: watch::Sender::new(1), cut: false, owed: Vec::new() };
        state.links.insert(number, link);
        (number, bond)
    }

    pub(super) fn end_session(&self, number: u64, reason: LossReason) {
        let mut state = self.state();
        if let Some(link) = state.links.remove(&number) {
            link.bond.lose(reason);
        }
        state.queues.remove_session(number);
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
        effect: impl FnOnce(&mut State, Version) -> T + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let mut state = self.state();
        let Some(link) = state.links.get(&session) else {
            return refuse(lost(operation));
        };
        if link.cut {
            let message = "the way to the service is cut";
            return refuse(Error::transient(ErrorKind::ConnectionLost, operation, message));
        }
        let bond = link.bond.clone();
        let (reply, answer) = oneshot::channel();
        let request = move |state: &mut State| {
            // A session that ended while its request waited has no effect any more.
            let Some(version) = state.links.get(&session).map(|link| Version(*link.connection.borrow())) else {
                return;
            };
            let value = effect(state, version);
            let outcome = if state.drop_next_reply == Some(operation) {
                state.drop_next_reply = None;
                Err(Error::unknown(ErrorKind::ConnectionLost, operation, "the reply was lost"))
            } else {
                Ok(value)
            };
            // Whoever asked may have given up.
            let _ = reply.send(outcome);
        };
        if !state.paused {
            request(&mut state);
        } else if state.waiting.len() < PAUSED_REQUESTS_MAX {
            state.waiting.push_back(Box::new(request));
        } else {
            let message = format!("{PAUSED_REQUESTS_MAX} requests wait in the paused service");
            return refuse(Error::transient(ErrorKind::LimitReached, operation, message));
        }
        drop(state);
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(lost(operation))),
                _ = bond.lost() => Err(lost(operation)),
            }
        })
    }

    /// Has something done for a session for certain: now, when the service goes on, or when the way to it heals. If the
    /// session ends first, its contenders end with it.
    pub(super) fn owe(&self, session: u64, effect: impl FnOnce(&mut State) + Send + 'static) {
        let mut state = self.state();
        let paused = state.paused;
        let Some(link) = state.links.get_mut(&session) else {
            return;
        };
        if link.cut {
            link.owed.push(Box::new(effect));
        } else if paused {
            state.waiting.push_back(Box::new(effect));
        } else {
            effect(&mut state);
        }
    }
}

pub(super) fn lost(operation: Operation) -> Error {
    Error::transient(ErrorKind::Lost(LossReason::Expired), operation, "the session has ended")
}

fn refuse<T: Send + 'static>(error: Error) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(Err(error)))
}

impl fmt::Debug for MemoryService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MemoryService")
    }
}
