//! State that a keeper, its locks and its guards share: the present session, or the next, and the keeper's end.

pub(crate) mod call;
mod examination;
pub(crate) mod known_head;
mod requirements;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, future, io, thread};

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::memory::Testing;
use lockkeeper_core::{
    AdminBackend, Backend, Backoff, BoxFuture, Error, ErrorKind, Home, LossReason, Opener, Operation, Owner, ProcessId,
    QueueName, Requirement, Result, Session, TicketHead, Wait, randomness,
};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::deadlock::KeyTable;
use crate::event::Observers;
use crate::event::meter::Meters;
use crate::handoff::Handoff;
use crate::hold::list::Holds;
use crate::retry::RetryPolicy;
use crate::shared::known_head::KnownHeads;

/// What runs the futures that watch a hand-off, in a test.
pub struct Spawner(Box<dyn Fn(BoxFuture<()>) + Send + Sync>);

impl Spawner {
    /// Hands each future to this function.
    pub fn new(run: impl Fn(BoxFuture<()>) + Send + Sync + 'static) -> Self {
        Self(Box::new(run))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Spawner")
    }
}

/// How far a keeper is from its end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum KeeperStage {
    Open,
    /// Nothing new is granted; what is held can be used and given back.
    Drained,
    /// The session is ended.
    Closed,
}

/// What a keeper, its locks and its guards share.
pub(crate) struct Shared {
    /// The process that it is of.
    pub(crate) home: Home,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retry: RetryPolicy,
    pub(crate) owner: Arc<Owner>,
    pub(crate) process: Option<ProcessId>,
    /// The contender that everything of this keeper is nested in, if its program says so.
    pub(crate) within: Option<TicketHead>,
    pub(crate) observers: Arc<Observers>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) opener: Opener<Arc<dyn Session>>,
    /// Opens the session of the places that are kept while no task holds their lock.
    pub(crate) kept_opener: Opener<Arc<dyn Session>>,
    /// The promises without which no session is opened.
    pub(crate) required: Arc<[Requirement]>,
    pub(crate) stage: watch::Sender<KeeperStage>,
    /// Whether the service was examined, or is right now.
    pub(crate) is_examined: AtomicBool,
    pub(crate) holds: Arc<Holds>,
    pub(crate) known_heads: KnownHeads,
    /// What its owner keys hold and wait for.
    pub(crate) keys: Arc<Mutex<KeyTable>>,
    /// How locks go from task to task, unless they are told otherwise.
    pub(crate) handoff: Handoff,
    /// What runs the watches of local queues, in place of the runtime of the caller.
    pub(crate) spawner: Option<Spawner>,
    /// The means to inject faults, over a memory service.
    pub(crate) testing: Option<Testing>,
}

impl Shared {
    /// Returns what operators have of the backend.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] in a fork of the keeper's process.
    pub(crate) fn admin(&self) -> Result<&dyn AdminBackend> {
        self.home.check(Operation::Inspect).map(|()| self.backend.admin())
    }

    /// Returns the present session, or waits until the next one is open. If the future is dropped, the opening goes on.
    /// A caller that comes after an opening has failed begins another one.
    ///
    /// # Errors
    ///
    /// Those of the opening, for all callers that wait for it; [`ErrorKind::Closed`] once the keeper is closed, and for
    /// a new session once it is drained.
    pub(crate) async fn session(&self) -> Result<Arc<dyn Session>> {
        self.home.check(Operation::Connect)?;
        self.opener.get(|| self.open()).await
    }

    /// Returns the present session if it is open and answers at once.
    pub(crate) fn session_at_once(&self) -> Option<Arc<dyn Session>> {
        let is_held = |session: &Arc<dyn Session>| session.bond().liveness().is_held();
        if self.backend.capabilities().answers_at_once { self.opener.present().filter(is_held) } else { None }
    }

    /// Returns the present session of kept places, or waits for the next one, as [`Shared::session`] does. It is to be
    /// polled in the runtime of kept places.
    pub(crate) async fn kept_session(&self) -> Result<Arc<dyn Session>> {
        self.home.check(Operation::Connect)?;
        self.kept_opener.get(|| self.open()).await
    }

    /// Returns how long to wait after so many failures in a row, the first of an attempt that began at this moment;
    /// `None` to give up.
    pub(crate) fn delay(&self, failed: u32, started: BootInstant) -> Option<Duration> {
        let random = randomness::spread();
        self.retry.delay(failed, self.clock.now().saturating_duration_since(started), random)
    }

    /// Waits after the failure of an operation until the service can be asked again, at most for so long: one that is
    /// back serves all that wait at once, however long their pauses have grown.
    pub(crate) async fn rest(&self, opener: &Opener<Arc<dyn Session>>, failed: Operation, delay: Duration) {
        tokio::select! {
            biased;
            () = self.until_back(opener, failed) => {}
            () = self.clock.sleep_until(self.clock.now().saturating_add(delay)) => {}
        }
    }

    /// Waits until a session is open, or the present one has a connection again. Without such a trouble, a pause is a
    /// pause.
    async fn until_back(&self, opener: &Opener<Arc<dyn Session>>, failed: Operation) {
        if failed == Operation::Connect {
            return opener.reopen(&*self.clock, || self.open()).await;
        }
        if self.backend.trouble().is_none() {
            return future::pending().await;
        }
        let mut backoff = Backoff::CONNECTING;
        while self.backend.trouble().is_some() {
            backoff.rest(&*self.clock).await;
        }
    }

    /// Tells whether a request to a queue waits for another process that is just entering it.
    pub(crate) fn is_held_up(&self, queue: &QueueName) -> bool {
        let sessions = [&self.opener, &self.kept_opener].map(Opener::present);
        sessions.into_iter().flatten().any(|session| session.is_held_up(queue))
    }

    /// Notes that the keeper is as near to its end as this; there is no way back.
    pub(crate) fn reach(&self, stage: KeeperStage) {
        self.opener.shut();
        self.kept_opener.shut();
        self.stage.send_if_modified(|present| {
            *present < stage && {
                *present = stage;
                true
            }
        });
    }

    /// Returns the runtime in which the requests of a hand-off are made, and in which it is watched: that of the
    /// caller, or the one of kept places. `None` if there is none, or a test polls the watches by hand.
    ///
    /// # Errors
    ///
    /// Those of [`runtime_of_kept_places`].
    pub(crate) fn runtime_of(&self, is_kept: bool) -> Result<Option<Handle>> {
        match self.spawner {
            None if is_kept => runtime_of_kept_places().map(Some),
            None => Ok(Handle::try_current().ok()),
            Some(_) => Ok(None),
        }
    }

    /// Whether a test polls the watches of hand-offs by hand; then there need not be a runtime.
    pub(crate) const fn is_polled_by_hand(&self) -> bool {
        self.spawner.is_some()
    }

    /// Runs what belongs to a hand-off in the background; without a runtime it is dropped.
    pub(crate) fn spawn_watch(&self, is_kept: bool, watch: BoxFuture<()>) {
        match (&self.spawner, self.runtime_of(is_kept)) {
            (Some(Spawner(run)), _) => run(watch),
            (None, Ok(Some(runtime))) => drop(runtime.spawn(watch)),
            (None, _) => {}
        }
    }

    /// Waits for something for as long as `wait` says; `None` if the time was up first. What is ready at once is
    /// returned also without a wait.
    pub(crate) async fn by<T>(&self, wait: Wait, wanted: impl Future<Output = T>) -> Option<T> {
        let deadline = match wait {
            Wait::Forever => return Some(wanted.await),
            Wait::Until(deadline) => deadline,
            Wait::No => self.clock.now(),
            Wait::AtMost(time) => self.clock.now().saturating_add(time),
        };
        tokio::select! {
            biased;
            had = wanted => Some(had),
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// Waits until the keeper has come as far as this, and says that it is closed.
    pub(crate) async fn until(&self, stage: KeeperStage) -> Error {
        let mut changes = self.stage.subscribe();
        // The sender lives in `self`, so this ends when the stage is reached and in no other way.
        let _ = changes.wait_for(|&present| present >= stage).await;
        closed()
    }

    /// Says that the keeper is closed, if it has come as far as this.
    pub(crate) fn refuse_from(&self, stage: KeeperStage) -> Result<()> {
        if *self.stage.borrow() >= stage { Err(closed()) } else { Ok(()) }
    }
}

/// In a fork it is of no use and ends nothing: what it has open is its parent's.
impl Drop for Shared {
    fn drop(&mut self) {
        if self.home.is_left() {
            self.opener.leave();
            self.kept_opener.leave();
            std::mem::forget(self.backend.clone());
        }
    }
}

/// Returns the error of a keeper that grants nothing any more.
pub(crate) fn closed() -> Error {
    Error::permanent(ErrorKind::Closed, Operation::Connect, LossReason::Closed.to_string())
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Shared").field(&self.backend).finish()
    }
}

/// The runtime's handle, once it runs, and the process that has its thread. It runs until that process ends.
static RUNTIME: Mutex<Option<(Home, Handle)>> = Mutex::new(None);

/// Returns the runtime; the first call starts it.
///
/// # Errors
///
/// Transient if the system gives no thread, or no descriptors for it.
fn runtime_of_kept_places() -> Result<Handle> {
    let mut runtime = RUNTIME.lock();
    if let Some((home, running)) = &*runtime
        && !home.is_left()
    {
        return Ok(running.clone());
    }
    let started = start().map_err(|error| {
        let message = "no thread could be started for the places that are kept";
        Error::transient(ErrorKind::Backend, Operation::Connect, message).caused_by(error)
    })?;
    // A fork has the handle of its parent's too, and no thread of it.
    std::mem::forget(runtime.replace((Home::here(), started.clone())));
    Ok(started)
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(future::pending::<()>());
    thread::Builder::new().name("lockkeeper-kept".to_owned()).spawn(run)?;
    Ok(handle)
}
