//! What all parts of one session share: its number, its present connection, what is believed, and the calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Error, ErrorKind, Liveness, LossReason, Operation, Result, SafeUntil, SessionBond};
use lockkeeper_session::{Link as _, Outbox, SessionOver};
use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::connection::{Effect, Failure, FailureKind, Flight, late};
use crate::layout::{Layout, SessionId};
use crate::session::belief::{Belief, Timing};
use crate::session::link::Link;
use crate::session::roll::Roll;
use crate::session::{Call, Make};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The pause before a call is made again that the service has turned away for now.
const PAUSE: Duration = Duration::from_millis(100);

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
    pub(crate) layout: Layout,
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
    /// Asks for a renewal now.
    pub(super) urge: Notify,
    /// The least guard of all sessions as the last renewal was told it, in milliseconds.
    guard_ms: AtomicU64,
    /// Counts the answered renewals.
    pub(super) renewals: watch::Sender<u64>,
    /// The contenders that renewals ask for.
    pub(crate) roll: Roll,
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
        let bond = SessionBond::new(clock.clone(), SafeUntil::At(belief.safe_until()));
        bond.set_notice(timing.notice());
        Self {
            layout: config.layout(),
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
            // The first renewal is sent at once.
            guard_ms: AtomicU64::new(u64::try_from(timing.guard().as_millis()).unwrap_or(u64::MAX)),
            renewals: watch::Sender::new(0),
            roll: Roll::default(),
            trouble: Mutex::default(),
            #[cfg(feature = "testing")]
            testing: parts.testing,
        }
    }

    pub(crate) const fn bond(&self) -> &SessionBond {
        &self.bond
    }

    /// Notes that a call was answered that renews the session and was sent at this moment.
    pub(crate) fn renewed(&self, sent_at: BootInstant) {
        let safe_until = {
            let mut belief = locked(&self.belief);
            belief.renewed(sent_at);
            belief.safe_until()
        };
        self.bond.note_proof(sent_at);
        self.bond.renew(SafeUntil::At(safe_until));
        self.renewals.send_modify(|count| *count += 1);
    }

    /// Notes the guard, in milliseconds, by which the next renewal is timed.
    pub(super) fn renews_under(&self, guard_ms: u64) {
        self.guard_ms.store(guard_ms, Ordering::Relaxed);
    }

    /// Notes the guard, in milliseconds, that stands now. If it is less than that by which the next renewal is timed,
    /// that would come too late: the service's clock falls behind, and the dead are removed late. So it is sent now.
    pub(crate) fn heard_of_guard(&self, guard_ms: u64) {
        if guard_ms < self.guard_ms.fetch_min(guard_ms, Ordering::Relaxed) {
            self.urge.notify_one();
        }
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
        self.outbox.attach(&link);
        self.link.send_replace(Some(link));
    }

    /// Notes that the connection in use is lost.
    pub(super) fn detach(&self) {
        self.outbox.detach();
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

    /// Sends a flight over a connection, whose use ends if it brings nothing any more.
    pub(crate) fn fly(
        &self,
        link: &Arc<Link>,
        flight: Flight,
        operation: Operation,
    ) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let asking = link.connection.flight(flight);
        #[cfg(feature = "testing")]
        let testing = self.testing.clone();
        let link = link.clone();
        Box::pin(async move {
            let answers = asking.await;
            #[cfg(feature = "testing")]
            if answers.is_ok() && testing.loses(operation) {
                link.shut();
                return Err(Failure::broken(Effect::Unknown));
            }
            let _ = operation;
            if answers.as_ref().is_err_and(Failure::needs_another) {
                link.shut();
            }
            answers
        })
    }

    /// The epoch of a connection with this number: joins of a lower one have no effect any more.
    #[cfg_attr(not(feature = "testing"), expect(clippy::unused_self, reason = "tests can plant a bug here"))]
    pub(crate) fn epoch(&self, number: u64) -> String {
        #[cfg(feature = "testing")]
        if self.testing.ignores_epochs() {
            return "1".to_owned();
        }
        number.to_string()
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

    /// Whether the session has certainly stood until now, or until it was closed by its user a moment ago.
    pub(crate) fn has_stood(&self) -> bool {
        match self.bond.liveness() {
            Liveness::Held { .. } | Liveness::Jeopardy { .. } | Liveness::Lost(LossReason::Closed) => {
                self.clock.now() < locked(&self.belief).safe_until()
            }
            Liveness::Lost(_) => false,
        }
    }

    /// Waits until the session may be believed for as long as a grant should be worth, or is lost.
    pub(crate) async fn until_believable(&self) -> Result<(), LossReason> {
        if self.safe_for() >= self.timing.worth_granting() {
            return Ok(());
        }
        loop {
            let mut renewals = self.renewals.subscribe();
            if let Liveness::Lost(reason) = self.bond.liveness() {
                return Err(reason);
            }
            if self.safe_for() >= self.timing.worth_granting() {
                return Ok(());
            }
            self.urge.notify_one();
            tokio::select! {
                biased;
                reason = self.bond.lost() => return Err(reason),
                // The sender lives in what we hold.
                _ = renewals.changed() => {}
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
        let server = self.link.borrow().as_ref().map(|link| link.connection.server().to_string());
        formatter.debug_struct("Session").field("bond", &self.bond).field("server", &server).finish_non_exhaustive()
    }
}
