//! The open way to one service: makes the locks and keeps the session that they are held under.

pub mod memory;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::memory::Testing;
use lockkeeper_core::{
    Backend, Capabilities, ContenderInfo, Exclusion, Home, NamePattern, Opener, Operation, Owner, ProcessId, QueueName,
    Requirement, Result, Session, Ticket, TicketHead,
};
use tokio::sync::watch;

use crate::contend::local_queue::LocalQueues;
use crate::event::meter::Meters;
use crate::event::{Observer, Observers};
use crate::handoff::Handoff;
use crate::hold::list::OwnContender;
use crate::retry::RetryPolicy;
use crate::shared::known_head::KnownHeads;
use crate::shared::{KeeperStage, Shared, Spawner, closed};

/// An open way to one coordination service: makes the locks; cheap to clone.
///
/// In the guide: [settings](https://docs.rs/lockkeeper/latest/lockkeeper/guide/settings/index.html).
///
/// In the guide: [a first lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/start/index.html).
///
/// It opens a session when the first lock is asked for, and a new one when that was lost: the loss ends the holds made
/// under it and nothing else. [Sticky](Handoff::Sticky) places have a second one. The opening is a task in the runtime
/// of the first caller. It goes on when that caller has given up, and all callers that wait for it share its outcome.
/// The session ends when the keeper, its clones and all that they made (locks and guards) are dropped, or on
/// [`Keeper::close`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::Keeper;
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
/// - A method that takes a name fails with [`ErrorKind::InvalidName`](lockkeeper_core::ErrorKind::InvalidName) if the
///   name is not valid. Making a lock costs nothing; the service takes part from its first use.
/// - A method that makes a lock fails with [`ErrorKind::Unsupported`](lockkeeper_core::ErrorKind::Unsupported),
///   permanent, if the service does not carry this kind of lock ([`Capabilities::modes`]). Nothing is sent. Barriers,
///   counters and values are carried everywhere.
/// - A method that looks ([`Keeper::contenders`], [`Keeper::until_vacant`]) fails if the service cannot be reached now
///   (transient) or refuses (permanent). Dropping its future changes nothing. Its answer may be older than a change
///   that another client made at the same time.
///
/// What operators do with all locks, and with the service, is in [`Keeper::admin`].
#[derive(Clone)]
#[doc(alias = "CuratorFramework")]
pub struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) local_queues: Arc<LocalQueues>,
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
            within: None,
            observers: Observers::default(),
            labelled: Vec::new(),
            testing: None,
            handoff: Handoff::default(),
            required: Vec::new(),
            spawner: None,
        }
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
    /// Transient if no session can be opened now, permanent if the service refuses one;
    /// [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed) if this keeper was closed.
    pub async fn notice(&self) -> Result<Option<Duration>> {
        Ok(self.shared.session().await?.bond().notice())
    }

    /// Shows the holders and the waiters, first contender first; empty if there are none.
    #[doc(alias = "getParticipantNodes")]
    pub async fn contenders(&self, name: &str) -> Result<Vec<ContenderInfo>> {
        let queue = QueueName::new(name)?;
        self.shared.admin()?.inspect(&queue).await.map_err(|error| error.at(&queue))
    }

    /// Counts the tasks that wait within this process for a lock that is [handed off](Handoff): the service sees one
    /// contender for all of them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`](lockkeeper_core::ErrorKind::InvalidName).
    pub fn local_waiters(&self, name: &str) -> Result<usize> {
        Ok(self.local_queues.waiters(&QueueName::new(name)?))
    }

    /// Lists what this keeper and its clones hold and wait for, in the order in which they asked or were granted; what
    /// was lost is not held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::memory();
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
    /// new calls through this keeper and its clones, and calls that wait, end with
    /// [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed). What is held stays held, and its guards, owners and
    /// downgrades work as before. The leader of an election is not told: end the latch or the work. Then
    /// [`Keeper::close`] tells the service.
    ///
    /// It waits neither for a hold that is lost nor, beyond `deadline`, for a service that cannot be reached.
    ///
    /// ```
    /// # async fn sigterm() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use std::time::Duration;
    ///
    /// # let keeper = lockkeeper::Keeper::memory();
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
        let shared = self.shared.clone();
        let is_left = shared.home.is_left();
        if !is_left {
            self.reach(KeeperStage::Drained);
        }
        let until = shared.clock.now().saturating_add(deadline);
        async move {
            if is_left {
                return Vec::new();
            }
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

    /// Ends the session: holders lose their locks ([`LossReason::Closed`](lockkeeper_core::LossReason::Closed)),
    /// waiters get [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed), and nothing can be locked through this
    /// keeper or its clones any more.
    ///
    /// It takes effect when it is called, after all earlier calls, and also if the future is dropped.
    ///
    /// # Errors
    ///
    /// Transient if the service could not be told, as after a connection loss. Then it ends the session after its
    /// timeout.
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let closing = self.shared.home.check(Operation::Close).map(|()| {
            self.reach(KeeperStage::Closed);
            let sessions = [&self.shared.opener, &self.shared.kept_opener].map(Opener::take);
            let sessions = sessions.map(|session| session.map(|session| session.close()));
            (sessions, self.shared.backend.close())
        });
        async move {
            let (sessions, looking) = closing?;
            let mut closed = Ok(());
            for closing in sessions.into_iter().flatten() {
                closed = closing.await.and(closed);
            }
            closed.and(looking.await)
        }
    }
}

impl Keeper {
    /// Goes to this stage, and ends the calls that wait for a turn: no watch for each of very many is needed.
    fn reach(&self, stage: KeeperStage) {
        self.shared.reach(stage);
        self.local_queues.fail(&closed());
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Keeper").field(&self.service()).finish()
    }
}

/// Builds a [`Keeper`].
#[derive(Debug)]
pub struct KeeperBuilder {
    backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    retry: RetryPolicy,
    owner: Owner,
    within: Option<TicketHead>,
    observers: Observers,
    labelled: Vec<NamePattern>,
    testing: Option<Testing>,
    handoff: Handoff,
    required: Vec<Requirement>,
    spawner: Option<Spawner>,
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

    /// Gives the locks of these names a label `lock` of their own in the [metrics](crate::meter): 999 of them at most,
    /// in the order in which the keeper makes them. All others have the label `other`. Without this, no metric has such
    /// a label.
    ///
    /// Every name has about a hundred series, so give it to few, whose names do not change.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn label_locks(mut self, patterns: impl IntoIterator<Item = NamePattern>) -> Self {
        self.labelled.extend(patterns);
        self
    }

    /// Says that all of this keeper's contenders are nested in the one of this ticket: a program that runs under a lock
    /// which another process holds for it. Then a search for deadlocks knows both as one.
    #[must_use]
    pub fn within(mut self, enclosing: Ticket) -> Self {
        self.within = Some(enclosing.head());
        self
    }

    /// Has mutexes, and the writing sides of read/write locks, go from task to task in this way, unless they are told
    /// otherwise by [`Mutex::handoff`](crate::Mutex::handoff) or [`RwLock::handoff`](crate::RwLock::handoff).
    #[must_use]
    pub fn handoff(mut self, handoff: Handoff) -> Self {
        self.handoff = handoff;
        self
    }

    /// Opens sessions only where the service promises this: an [`Exclusion`], a [`Fencing`](lockkeeper_core::Fencing)
    /// or a [`StoppedHolder`](lockkeeper_core::StoppedHolder), or more. Each call adds a requirement.
    ///
    /// Without a session nothing is granted: the first call that needs one fails with
    /// [`ErrorKind::Unsupported`](lockkeeper_core::ErrorKind::Unsupported), permanent, and says what is promised
    /// instead. A kind of service that never promises it is refused before anything is sent. All others are examined
    /// with each session that is opened, [briefly](lockkeeper_core::Scrutiny::Brief): that costs a few requests, and
    /// finds an etcd whose version is at fault. [`Admin::examine`](crate::Admin::examine) finds more, and what becomes
    /// worse during a session is not noticed. If there is no answer within 10 seconds, opening fails in a way that
    /// passes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockkeeper::Error> {
    /// use lockkeeper::{ErrorKind, Exclusion, Fencing};
    ///
    /// // The URL may come from a file; the program must not run with locks that reach no further than one machine.
    /// let keeper = lockkeeper::builder("memory:")?.require(Exclusion::Timed).require(Fencing::Service).build();
    /// let error = keeper.mutex("ledger")?.lock().await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Unsupported);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn require(mut self, promise: impl Into<Requirement>) -> Self {
        self.required.push(promise.into());
        self
    }

    /// Runs the futures that watch a [hand-off](Handoff) by this, in place of the runtime of the caller: for tests that
    /// choose when they are polled.
    #[doc(hidden)]
    #[must_use]
    pub fn spawner(mut self, spawner: Spawner) -> Self {
        self.spawner = Some(spawner);
        self
    }

    /// Keeps the means to inject faults with the keeper.
    pub(crate) fn testing(mut self, testing: Testing) -> Self {
        self.testing = Some(testing);
        self
    }

    /// Makes the keeper. Nothing is opened yet.
    pub fn build(self) -> Keeper {
        let Self { backend, clock, retry, owner, within, observers, labelled, testing, handoff, required, spawner } =
            self;
        let home = match backend.capabilities().exclusion {
            Exclusion::Process => Home::ANYWHERE,
            _ => Home::here(),
        };
        let meters = Arc::new(Meters::new(backend.capabilities().backend, clock.clone(), labelled));
        #[cfg(feature = "metrics")]
        let observers = observers.with(meters.clone());
        let opener = |me: &Weak<Shared>| {
            let keeper = me.clone();
            Opener::new(move |session: &Arc<dyn Session>| {
                if let Some(shared) = keeper.upgrade() {
                    shared.tell_of(&**session);
                }
            })
        };
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared {
            home,
            backend,
            clock,
            retry,
            owner: Arc::new(owner),
            process: ProcessId::this_process(),
            within,
            observers: Arc::new(observers),
            meters,
            opener: opener(me),
            kept_opener: opener(me),
            required: required.into(),
            stage: watch::Sender::new(KeeperStage::Open),
            is_examined: AtomicBool::new(false),
            holds: Arc::default(),
            known_heads: KnownHeads::default(),
            keys: Arc::default(),
            handoff,
            spawner,
            testing,
        });
        Keeper { shared, local_queues: Arc::default() }
    }
}
