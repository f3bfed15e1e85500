//! The open way to one service: makes the locks and keeps the session that they are held under.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Clock, RuntimeClock, SystemClock};
use crate::contend::Fronts;
use crate::event::{self, Event, Observer};
use crate::holds::{Holds, OwnContender};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::memory::{MemoryService, Testing};
use crate::opening::Slot;
use crate::retry::RetryPolicy;
use crate::{
    Backend, Capabilities, ContenderInfo, Error, ErrorKind, LossReason, Mutex, Operation, Owner, Permits, QueueName,
    Result, RwLock, Semaphore,
};

/// An open way to one coordination service: makes the locks; cheap to clone.
///
/// It opens a session when the first lock is asked for, and a new one when that was lost: the loss ends the holds made
/// under it and nothing else. The opening is a task in the runtime of the first caller. It goes on when that caller has
/// given up, and all callers that wait for it share its outcome. The session ends when the keeper, its clones and all
/// that they made (locks, guards and holds) are dropped, or on [`Keeper::close`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// use lockkeeper_core::Keeper;
///
/// let keeper = Keeper::memory();
/// let answer = keeper.mutex("sum")?.run(|_hold| async { 6 * 7 }).await?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// ```
///
/// # All methods
///
/// - A method that takes a name fails with [`ErrorKind::InvalidName`] if the name is not valid. Making a lock costs
///   nothing; the service takes part from its first use.
/// - A method that looks ([`Keeper::contenders`], [`Keeper::queues`], [`Keeper::until_vacant`]) fails if the service
///   cannot be reached now (transient) or refuses (permanent). Dropping its future changes nothing. Its answer may be
///   older than a change that another client made at the same time.
#[derive(Clone)]
#[doc(alias = "CuratorFramework")]
pub struct Keeper {
    pub(crate) shared: Arc<Shared>,
}

/// How far a keeper is from its end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Stage {
    Open,
    /// Nothing new is granted; what is held can be used and given back.
    Drained,
    /// The session is ended.
    Closed,
}

/// What a keeper, its locks and its guards share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retry: RetryPolicy,
    pub(crate) owner: Arc<Owner>,
    observers: Vec<Arc<dyn Observer>>,
    /// A weak reference to itself, for tasks that must not keep it alive.
    pub(crate) me: Weak<Self>,
    pub(crate) session: StdMutex<Slot>,
    stage: watch::Sender<Stage>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) fronts: Fronts,
    testing: Option<Testing>,
}

impl Keeper {
    /// Makes a keeper over any backend, with the defaults of [`KeeperBuilder`].
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::builder(backend).build()
    }

    /// Starts a keeper over any backend.
    pub fn builder(backend: Arc<dyn Backend>) -> KeeperBuilder {
        KeeperBuilder {
            backend,
            clock: Arc::new(SystemClock),
            retry: RetryPolicy::default(),
            owner: Owner::this_process(),
            observers: Vec::new(),
            testing: None,
        }
    }

    /// Makes a keeper with its own memory service: the reference semantics within one process, and, with
    /// [`Keeper::testing`], a test double.
    ///
    /// Its time is tokio's: where a test has paused that (`#[tokio::test(start_paused = true)]`), timeouts and limits
    /// of holds follow it.
    pub fn memory() -> Self {
        MemoryService::new(Arc::new(RuntimeClock::new())).keeper()
    }

    /// Returns the mutex of this name.
    pub fn mutex(&self, name: &str) -> Result<Mutex> {
        Ok(Mutex::new(self.lock(name)?))
    }

    /// Returns the read/write lock of this name.
    #[doc(alias = "InterProcessReadWriteLock")]
    pub fn rw_lock(&self, name: &str) -> Result<RwLock> {
        Ok(RwLock::new(self.lock(name)?))
    }

    /// Returns the semaphore of this name, with the given number of permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] also for a counter whose name is not valid; [`ErrorKind::InvalidRequest`] for a
    /// semaphore of no permits.
    #[doc(alias = "InterProcessSemaphoreV2")]
    pub fn semaphore(&self, name: &str, permits: impl Into<Permits>) -> Result<Semaphore> {
        Semaphore::new(self.lock(name)?, permits.into())
    }

    pub(crate) fn lock(&self, name: &str) -> Result<Lock> {
        Ok(Lock { shared: self.shared.clone(), queue: QueueName::new(name)?, limits: Limits::default() })
    }

    /// Names the service as a URL without secrets.
    pub fn service(&self) -> String {
        self.shared.backend.service()
    }

    /// States what is promised on this service.
    pub fn capabilities(&self) -> &Capabilities {
        self.shared.backend.capabilities()
    }

    /// Returns how long before its deadline a holder is certain to be warned that renewals fail, as
    /// [`Hold::notice`](crate::Hold::notice) does once something is held; `None` if the service has no timeouts. Opens
    /// the session if there is none, and answers without the service while the session is not lost.
    ///
    /// It follows from the timeout that the service has granted, and may shrink when that does.
    ///
    /// # Errors
    ///
    /// Transient if no session can be opened now, permanent if the service refuses one; [`ErrorKind::Closed`] if this
    /// keeper was closed.
    pub async fn notice(&self) -> Result<Option<Duration>> {
        Ok(self.shared.session().await?.notice())
    }

    /// Shows the holders and the waiters, first contender first; empty if there are none.
    #[doc(alias = "getParticipantNodes")]
    pub async fn contenders(&self, name: &str) -> Result<Vec<ContenderInfo>> {
        let queue = QueueName::new(name)?;
        self.shared.backend.inspect(&queue).await.map_err(|error| error.at(&queue))
    }

    /// Names the queues in use whose names begin with `prefix`, in the order of their names.
    pub async fn queues(&self, prefix: &str) -> Result<Vec<QueueName>> {
        self.shared.backend.queues(prefix).await
    }

    /// Lists what this keeper and its clones hold and wait for, in the order in which they asked or were granted; what
    /// was lost is not held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// let reports = keeper.mutex("reports")?.lock().await?;
    /// let holds = keeper.holds();
    /// assert!(holds.len() == 1 && holds[0].is_held());
    /// assert_eq!(holds[0].lock.as_str(), "reports");
    /// # drop(reports);
    /// # Ok(())
    /// # }
    /// ```
    pub fn holds(&self) -> Vec<OwnContender> {
        self.shared.holds.all()
    }

    /// Grants nothing more, and waits until all that is held is given back, at most for `deadline`; returns what is
    /// still held. For a service that is told to stop: it can finish its work under locks.
    ///
    /// It takes effect when it is called, before the first poll, and lasts also if the future is dropped. From then on
    /// new calls through this keeper and its clones, and calls that wait, end with [`ErrorKind::Closed`]. What is held
    /// stays held, and its guards, owners and downgrades work as before. The leader of an election is not told: end the
    /// latch or the work. Then [`Keeper::close`] tells the service.
    ///
    /// It waits neither for a hold that is lost nor, beyond `deadline`, for a service that cannot be reached.
    ///
    /// ```
    /// # async fn sigterm() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper_core::Error> {
    /// use std::time::Duration;
    ///
    /// # let keeper = lockkeeper_core::Keeper::memory();
    /// // The service's own tasks lock and work, each with a clone of the keeper. Meanwhile, as by
    /// // `tokio::signal::unix::signal(SignalKind::terminate())?.recv()`:
    /// sigterm().await;
    /// for held in keeper.drain(Duration::from_secs(20)).await {
    ///     eprintln!("{} is held still, and is lost with the session", held.lock);
    /// }
    /// keeper.close().await
    /// # }
    /// ```
    pub fn drain(&self, deadline: Duration) -> impl Future<Output = Vec<OwnContender>> + Send + 'static {
        self.shared.reach(Stage::Drained);
        let shared = self.shared.clone();
        let until = shared.clock.now().saturating_add(deadline);
        async move {
            tokio::select! {
                biased;
                () = shared.holds.until_none() => {}
                () = shared.clock.sleep_until(until) => {}
            }
            let mut held = shared.holds.all();
            held.retain(OwnContender::is_held);
            held
        }
    }

    /// Ends the session: holders lose their locks ([`LossReason::Closed`]), waiters get [`ErrorKind::Closed`], and
    /// nothing can be locked through this keeper or its clones any more.
    ///
    /// It takes effect when it is called, after all earlier calls, and also if the future is dropped.
    ///
    /// # Errors
    ///
    /// Transient if the service could not be told, as after a connection loss. Then it ends the session after its
    /// timeout.
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.shared.reach(Stage::Closed);
        let closing = self.shared.take_session().map(|session| session.close());
        let looking = self.shared.backend.close();
        async move {
            let closed = match closing {
                Some(closing) => closing.await,
                None => Ok(()),
            };
            closed.and(looking.await)
        }
    }

    /// Returns the means to inject faults, if this keeper is over a memory service.
    pub fn testing(&self) -> Option<&Testing> {
        self.shared.testing.as_ref()
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Keeper").field(&self.service()).finish()
    }
}

impl Shared {
    /// Tells whether a request to a queue waits for another process that is just entering it.
    pub(crate) fn is_held_up(&self, queue: &QueueName) -> bool {
        self.present_session().is_some_and(|session| session.is_held_up(queue))
    }

    /// Notes that the keeper is as near to its end as this; there is no way back.
    fn reach(&self, stage: Stage) {
        self.stage.send_if_modified(|present| {
            *present < stage && {
                *present = stage;
                true
            }
        });
    }

    /// Waits until the keeper has come as far as this, and says that it is closed.
    pub(crate) async fn until(&self, stage: Stage) -> Error {
        let mut changes = self.stage.subscribe();
        // The sender lives in `self`, so this ends when the stage is reached and in no other way.
        let _ = changes.wait_for(|&present| present >= stage).await;
        closed()
    }

    /// Waits until the keeper is drained, closed or dropped, without keeping it alive.
    pub(crate) fn until_closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.stage.subscribe();
        async move {
            // An error says that it was dropped.
            let _ = changes.wait_for(|&present| present >= Stage::Drained).await;
        }
    }

    /// Says that the keeper is closed, if it has come as far as this.
    pub(crate) fn refuse_from(&self, stage: Stage) -> Result<()> {
        if *self.stage.borrow() >= stage { Err(closed()) } else { Ok(()) }
    }

    pub(crate) fn emit(&self, event: &Event) {
        event::trace(event);
        for observer in &self.observers {
            observer.on_event(event);
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::permanent(ErrorKind::Closed, Operation::Connect, LossReason::Closed.to_string())
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Shared").field(&self.backend).finish()
    }
}

/// Builds a [`Keeper`].
#[derive(Debug)]
pub struct KeeperBuilder {
    backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    retry: RetryPolicy,
    owner: Owner,
    observers: Vec<Arc<dyn Observer>>,
    testing: Option<Testing>,
}

impl KeeperBuilder {
    /// Takes time from this clock instead of the machine's. It should be the clock of the backend.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Retries by this policy instead of the default one.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Shows this owner to clients that look at the queue, instead of this process's host, process id and program.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// Sends events to this observer too.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    pub(crate) fn testing(mut self, testing: Testing) -> Self {
        self.testing = Some(testing);
        self
    }

    /// Makes the keeper. Nothing is opened yet.
    pub fn build(self) -> Keeper {
        let Self { backend, clock, retry, owner, observers, testing } = self;
        let shared = Arc::new_cyclic(|me| Shared {
            backend,
            clock,
            retry,
            owner: Arc::new(owner),
            observers,
            me: me.clone(),
            session: StdMutex::default(),
            stage: watch::Sender::new(Stage::Open),
            holds: Arc::default(),
            fronts: Fronts::default(),
            testing,
        });
        Keeper { shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;
    use crate::standing::SafeUntil;

    /// Before, each of these took as long as it says, and tokio's time ran ahead by hours.
    #[tokio::test(start_paused = true)]
    async fn a_memory_keeper_follows_paused_time_without_being_told() {
        const HOUR: Duration = Duration::from_secs(3600);
        let keeper = Keeper::memory();
        let mutex = keeper.mutex("door").unwrap();
        let guard = mutex.lock().await.unwrap();
        let start = tokio::time::Instant::now();
        assert!(mutex.lock_timeout(HOUR).await.unwrap().is_none());
        assert_eq!(start.elapsed().as_secs(), HOUR.as_secs());
        drop(guard);
        let limited = mutex.clone().max_hold(HOUR).lock().await.unwrap();
        assert_eq!(limited.hold().lost().await, LossReason::MaxHold);
        assert_eq!(start.elapsed().as_secs(), 2 * HOUR.as_secs());
        drop(limited);
        let held = mutex.lock().await.unwrap();
        let now = keeper.shared.clock.now();
        keeper.testing().unwrap().cut(SafeUntil::At(now.saturating_add(HOUR)));
        assert!(held.hold().is_held());
        assert_eq!(held.hold().lost().await, LossReason::Lapsed);
        assert_eq!(start.elapsed().as_secs(), 3 * HOUR.as_secs());
        tokio::time::advance(HOUR).await;
        assert_eq!(keeper.shared.clock.now().saturating_duration_since(now), 2 * HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_in_the_pause_before_its_next_attempt_is_told_at_once_that_the_keeper_was_closed() {
        let clock = Arc::new(TestClock::new());
        let keeper = MemoryService::new(clock.clone()).keeper();
        keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
        let mutex = keeper.mutex("door").unwrap();
        let waiting = tokio::spawn(async move { mutex.lock().await });
        // Long enough for the pauses to have grown to their longest.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!waiting.is_finished());
        let closed_at = clock.now();
        let _ = keeper.close().await;
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(clock.now(), closed_at);
    }
}
