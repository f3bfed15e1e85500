//! What all parts of one session share: its number, its present connection, what is believed, and the calls.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Liveness, LossReason, Operation, Result, SafeUntil, SessionBond};
use lockkeeper_session::{Link as _, Outbox, SessionOver};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::failure::{Effect, Failure, FailureKind};
use crate::session::belief::{Belief, Timing};
use crate::session::link::Link;
use crate::session::roll::Roll;
use crate::session::waits::Waits;
use crate::session::{Call, Make};
use crate::statement::{Row, SessionId, Statement};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The pause before a call is made again that the service has turned away for now.
const PAUSE: Duration = Duration::from_millis(100);

/// How long after a deadline an answer that is there already may take to be read.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// The number of the beat with which a session is opened.
const FIRST_BEAT: i64 = 1;

/// How a session ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The service has ended it: we told it to, or it had done so before.
    Certain,
    /// The service could not be told. It ends the session at its timeout.
    Untold(Failure),
}

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) id: SessionId,
    pub(crate) timing: Timing,
    /// Where the session lives.
    pub(crate) runtime: Handle,
    bond: SessionBond,
    belief: Mutex<Belief>,
    outbox: Outbox<Link>,
    /// The connection in use, if there is one.
    link: watch::Sender<Option<Arc<Link>>>,
    /// Set once no connection comes any more.
    pub(super) ending: watch::Sender<Option<Ending>>,
    /// Asks for a beat now.
    urge: Notify,
    /// The number of the last beat.
    last_beat: AtomicI64,
    /// Counts the answered beats.
    beats: watch::Sender<u64>,
    /// Our own contenders.
    pub(crate) roll: Roll,
    /// What is waited for.
    pub(crate) waits: Waits,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<Failure>>,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// What a session is made of.
pub(super) struct Parts {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) id: SessionId,
    /// When the session was asked for.
    pub(super) opened_at: BootInstant,
    #[cfg(feature = "testing")]
    pub(super) testing: Testing,
}

impl Core {
    pub(super) fn new(parts: Parts, runtime: Handle) -> Self {
        let Parts { config, clock, id, opened_at, .. } = parts;
        let timing = Timing { timeout: config.session_timeout() };
        let belief = Belief::new(timing, opened_at);
        let waits = Waits::new(clock.clone(), id.seed(), timing.patience());
        let bond = SessionBond::new(clock.clone(), SafeUntil::At(belief.safe_until()));
        bond.set_notice(timing.notice());
        Self {
            config,
            clock,
            id,
            timing,
            runtime,
            bond,
            belief: Mutex::new(belief),
            outbox: Outbox::default(),
            link: watch::Sender::new(None),
            ending: watch::Sender::new(None),
            urge: Notify::new(),
            last_beat: AtomicI64::new(FIRST_BEAT),
            beats: watch::Sender::new(0),
            roll: Roll::default(),
            waits,
            trouble: Mutex::default(),
            #[cfg(feature = "testing")]
            testing: parts.testing,
        }
    }

    pub(crate) const fn bond(&self) -> &SessionBond {
        &self.bond
    }

    /// Notes that a beat was answered that was sent at this moment.
    pub(super) fn proven(&self, sent_at: BootInstant) {
        #[cfg(feature = "testing")]
        let sent_at = if self.testing.counts_from_replies() { self.clock.now() } else { sent_at };
        let safe_until = {
            let mut belief = locked(&self.belief);
            belief.proven(sent_at);
            belief.safe_until()
        };
        self.bond.note_proof(sent_at);
        self.bond.renew(SafeUntil::At(safe_until));
        self.beats.send_modify(|count| *count += 1);
    }

    /// Asks for a beat now.
    pub(crate) fn urge(&self) {
        self.urge.notify_one();
    }

    /// Waits until a beat is asked for.
    pub(super) async fn urged(&self) {
        self.urge.notified().await;
    }

    /// Returns the number of the next beat, greater than any before.
    pub(super) fn next_beat(&self) -> i64 {
        self.last_beat.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the session holds or waits, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        !self.roll.is_empty() || !self.waits.is_empty()
    }

    pub(crate) fn trouble(&self) -> Option<Failure> {
        locked(&self.trouble).clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<Failure>) {
        *locked(&self.trouble) = trouble;
    }

    /// Puts a connection to use; what has waited for it is sent first.
    pub(super) fn attach(&self, link: Arc<Link>) {
        self.set_trouble(None);
        self.waits.attach(&link);
        self.outbox.attach(&link);
        self.link.send_replace(Some(link));
    }

    /// Notes that the connection in use is lost.
    pub(super) fn detach(&self) {
        self.outbox.detach();
        self.waits.detach();
        self.link.send_replace(None);
        let safe_until = locked(&self.belief).safe_until();
        self.bond.jeopardize(SafeUntil::At(safe_until));
    }

    /// Notes that no connection comes any more.
    pub(super) fn end(&self, ending: Ending) {
        self.detach();
        self.outbox.end();
        self.ending.send_replace(Some(ending));
    }

    /// Returns the connection in use, if there is one.
    pub(crate) fn present_link(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone().filter(|link| !link.is_over())
    }

    /// Returns the connection in use, or waits for the next one, however long that takes; `None` if none comes any
    /// more.
    pub(crate) async fn next_link(&self) -> Option<Arc<Link>> {
        let (mut links, mut ending) = (self.link.subscribe(), self.ending.subscribe());
        let is_usable = |link: &Option<Arc<Link>>| link.as_ref().is_some_and(|link| !link.is_over());
        tokio::select! {
            biased;
            _ = ending.wait_for(Option::is_some) => None,
            link = links.wait_for(is_usable) => link.ok().and_then(|link| link.clone()),
        }
    }

    /// Waits until the session is over for the service, or the service could not be told.
    pub(crate) async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone());
        ended.unwrap_or_else(|| Ending::Untold(Failure::broken(Effect::None)))
    }

    /// Calls the service: now, or over the next connection if there is none.
    pub(crate) fn call<T: Send + 'static>(&self, make: Make<T>) -> Call<T> {
        self.outbox.call(make)
    }

    /// Waits for the answer to a call until this moment.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        call: &mut Call<T>,
        deadline: BootInstant,
    ) -> Result<T, Failure> {
        let is_in_time = tokio::select! {
            biased;
            answer = call.answer() => return answer,
            () = late(&*self.clock, deadline) => call.is_sent(),
        };
        match (is_in_time, self.trouble()) {
            (false, Some(trouble)) => Err(trouble),
            (false, None) => Err(Failure::late(Effect::None)),
            (true, _) => Err(Failure::late(Effect::Unknown)),
        }
    }

    /// Waits for the answer to a call, however long that takes.
    pub(crate) async fn final_answer<T: Send + 'static>(&self, call: &mut Call<T>) -> Result<T, Failure> {
        call.answer().await
    }

    /// Makes a call again that failed in passing, at its turn.
    pub(crate) async fn again<T: Send + 'static>(&self, call: &mut Call<T>, failure: &Failure) {
        if !failure.needs_another() {
            self.clock.sleep_until(self.clock.now().saturating_add(PAUSE)).await;
        }
        self.outbox.again(call);
    }

    /// Waits after a failure over this connection: until another one is in use if it is of no use any more, else a
    /// little.
    pub(crate) async fn pause_after(&self, link: &Arc<Link>, failure: &Failure) {
        if !failure.needs_another() {
            self.clock.sleep_until(self.clock.now().saturating_add(PAUSE)).await;
            return;
        }
        link.shut();
        let (mut links, mut ending) = (self.link.subscribe(), self.ending.subscribe());
        let is_other =
            |present: &Option<Arc<Link>>| present.as_ref().is_none_or(|present| present.number != link.number);
        tokio::select! {
            biased;
            _ = ending.wait_for(Option::is_some) => {}
            _ = links.wait_for(is_other) => {}
        }
    }

    /// Asks over a connection, whose use ends if it brings nothing any more. It is sent, or stands in the connection's
    /// line, before this returns.
    pub(crate) fn ask(
        &self,
        link: &Arc<Link>,
        statement: Statement,
        operation: Operation,
    ) -> BoxFuture<Result<Vec<Row>, Failure>> {
        let function = statement.function;
        #[cfg(feature = "testing")]
        let testing = self.testing.clone();
        let (asking, link) = (link.wire.ask(statement), link.clone());
        Box::pin(async move {
            let answer = asking.await;
            #[cfg(feature = "testing")]
            if answer.is_ok() && testing.loses(function) {
                link.shut();
                return Err(Failure::broken(Effect::Unknown));
            }
            if let Err(failure) = &answer {
                tracing::trace!(target: "lockkeeper", function, ?operation, %failure, "not answered");
                if failure.needs_another() {
                    link.shut();
                }
            }
            answer
        })
    }

    /// Waits for an answer that keeps the session: one that takes too long shows that the connection is of no use.
    pub(super) async fn patiently<T>(&self, asking: BoxFuture<Result<T, Failure>>) -> Result<T, Failure> {
        let deadline = self.clock.now().saturating_add(self.timing.patience());
        tokio::select! {
            biased;
            answer = asking => answer,
            () = late(&*self.clock, deadline) => Err(Failure::late(Effect::Unknown)),
        }
    }

    /// The epoch of a connection with this number: what was sent under a lower one has no effect any more.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "tests can plant a bug here"))]
    pub(crate) fn epoch(&self, number: u64) -> i64 {
        #[cfg(feature = "testing")]
        if self.testing.ignores_epochs() {
            return 1;
        }
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    /// When a request that is made now must be answered.
    pub(crate) fn deadline(&self) -> BootInstant {
        self.clock.now().saturating_add(self.config.operation_timeout)
    }

    /// How long the session can certainly be believed from now on.
    fn safe_for(&self) -> Duration {
        match self.bond.liveness() {
            Liveness::Held { safe_until } => safe_until.left(self.clock.now()).unwrap_or(Duration::MAX),
            Liveness::Jeopardy { .. } | Liveness::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether the session may be believed now.
    pub(super) fn is_believed(&self) -> bool {
        self.clock.now() < locked(&self.belief).safe_until()
    }

    /// Waits until the session may be believed for as long as a grant should be worth, or is lost.
    pub(crate) async fn until_believable(&self) -> Result<(), LossReason> {
        loop {
            let mut beats = self.beats.subscribe();
            if let Liveness::Lost(reason) = self.bond.liveness() {
                return Err(reason);
            }
            if self.safe_for() >= self.timing.worth_granting() {
                return Ok(());
            }
            self.urge();
            tokio::select! {
                biased;
                reason = self.bond.lost() => return Err(reason),
                // The sender lives in what we hold.
                _ = beats.changed() => {}
            }
        }
    }

    /// Notes that the service has ended the session.
    pub(crate) fn expire(&self) {
        self.bond.lose(LossReason::Expired);
    }

    /// Refuses a call under a session that is lost.
    pub(crate) fn check(&self, operation: Operation) -> Result<()> {
        match self.bond.liveness() {
            Liveness::Lost(reason) => Err(lost(reason, operation)),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => Ok(()),
        }
    }

    /// The error that the session is over.
    pub(crate) fn over(&self, operation: Operation) -> Error {
        match self.bond.liveness() {
            Liveness::Lost(reason) => lost(reason, operation),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => lost(LossReason::Expired, operation),
        }
    }

    /// Turns a failure into an error of locks; a session that is lost meanwhile says more.
    pub(crate) fn fail(&self, failure: Failure, operation: Operation, is_write: bool) -> Error {
        if failure.kind == FailureKind::SessionGone {
            self.expire();
        }
        match self.bond.liveness() {
            Liveness::Lost(reason) => lost(reason, operation),
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => failure.into_core(operation, is_write),
        }
    }
}

/// Waits until an answer is late. After a deadline that was slept through with the whole program, the answer may be
/// there and only has to be read.
async fn late(clock: &dyn Clock, deadline: BootInstant) {
    clock.sleep_until(deadline).await;
    clock.sleep_until(clock.now().saturating_add(READ_WITHIN)).await;
}

/// The failure of a call under a session that the service does not know.
pub(crate) fn session_gone() -> Failure {
    Failure::new(FailureKind::SessionGone, Effect::None, "the session has ended")
}

impl From<SessionOver> for Failure {
    fn from(_: SessionOver) -> Self {
        Self::new(FailureKind::SessionGone, Effect::None, "the session is over")
    }
}

fn lost(reason: LossReason, operation: Operation) -> Error {
    Error::transient(ErrorKind::Lost(reason), operation, reason.to_string())
}

/// Nothing panics while one of these is locked, so a poisoned lock still guards consistent data.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.link.borrow().as_ref().map(|link| link.server.to_string());
        formatter.debug_struct("Session").field("bond", &self.bond).field("server", &server).finish_non_exhaustive()
    }
}
