//! What all parts of one session share: its lease, its present connection, what is believed, and its lanes.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result, SafeUntil, SessionBond};
use lockkeeper_session::{Effect, Failure, FailureKind};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::layout::Layout;
use crate::proto::{Compare, RequestOp, TxnRequest};
use crate::rpc::{Answer, Call, for_lack_of, txn};
use crate::session::belief::{Belief, Timing};
use crate::session::lanes::Lanes;
use crate::session::link::{Epoch, Link, header};
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The pause before a request is made again that the service has turned away for now.
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
    pub(crate) lease: i64,
    pub(crate) timing: Timing,
    /// Where the session lives; what is asked runs here, whichever thread asks.
    pub(crate) runtime: Handle,
    bond: SessionBond,
    belief: Mutex<Belief>,
    epoch: Mutex<Epoch>,
    /// The greatest revision that a quorum has answered with.
    revision: AtomicI64,
    /// The connection in use, if there is one.
    link: watch::Sender<Option<Arc<Link>>>,
    /// Set once no connection comes any more.
    pub(super) ending: watch::Sender<Option<Ending>>,
    pub(super) lanes: Arc<Lanes>,
    /// How many contenders of the session stand in queues, or are about to.
    dependents: AtomicUsize,
    /// Wakes the renewal when there is a first dependent.
    pub(super) entered: Notify,
    /// Asks for a renewal now.
    pub(super) urge: Notify,
    /// Counts the proven renewals.
    pub(super) renewals: watch::Sender<u64>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<Failure>>,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// What a session is made of.
pub(super) struct Parts {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lease: i64,
    pub(super) timeout: Duration,
    pub(super) belief: Belief,
    pub(super) safe_until: BootInstant,
    #[cfg(feature = "testing")]
    pub(super) testing: Testing,
}

impl Core {
    pub(super) fn new(parts: Parts, runtime: Handle) -> Self {
        let Parts { config, clock, lease, timeout, belief, safe_until, .. } = parts;
        let timing = Timing { timeout };
        let bond = SessionBond::new(clock.clone(), SafeUntil::At(safe_until));
        bond.set_notice(timing.notice());
        Self {
            layout: config.layout(),
            config,
            clock,
            lease,
            timing,
            bond,
            belief: Mutex::new(belief),
            epoch: Mutex::new(Epoch { offset: 0, written: 0 }),
            revision: AtomicI64::new(0),
            link: watch::Sender::new(None),
            ending: watch::Sender::new(None),
            lanes: Lanes::new(runtime.clone()),
            runtime,
            dependents: AtomicUsize::new(0),
            entered: Notify::new(),
            urge: Notify::new(),
            renewals: watch::Sender::new(0),
            trouble: Mutex::default(),
            #[cfg(feature = "testing")]
            testing: parts.testing,
        }
    }

    pub(crate) const fn bond(&self) -> &SessionBond {
        &self.bond
    }

    pub(super) fn belief(&self) -> MutexGuard<'_, Belief> {
        locked(&self.belief)
    }

    /// Runs a look after all earlier jobs on the same lock. Looks do not wait for one another.
    pub(crate) fn run_look(&self, queue: &QueueName, look: impl Future<Output = ()> + Send + 'static) {
        self.lanes.run_look(queue, look);
    }

    /// Runs a job after all earlier jobs on the same lock, whether or not its outcome is awaited. If the runtime has
    /// ended, the job is dropped.
    pub(crate) fn run(&self, queue: &QueueName, job: impl Future<Output = ()> + Send + 'static) {
        self.lanes.run(queue, job);
    }

    pub(crate) fn epoch(&self) -> Epoch {
        *locked(&self.epoch)
    }

    pub(crate) fn set_epoch(&self, epoch: Epoch) {
        *locked(&self.epoch) = epoch;
    }

    /// Notes a revision with which a quorum has answered. `false` if it is less than one before: then the service's
    /// data went back.
    pub(super) fn note_revision(&self, revision: i64) -> bool {
        self.revision.fetch_max(revision, Ordering::SeqCst) <= revision
    }

    pub(super) fn greatest_revision(&self) -> i64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Begins to note revisions anew from this one.
    pub(super) fn begin_revisions_at(&self, revision: i64) {
        self.revision.store(revision, Ordering::SeqCst);
    }

    pub(crate) fn trouble(&self) -> Option<Failure> {
        locked(&self.trouble).clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<Failure>) {
        *locked(&self.trouble) = trouble;
    }

    /// Notes a contender that depends on the session.
    pub(crate) fn depend(&self) {
        if self.dependents.fetch_add(1, Ordering::SeqCst) == 0 {
            self.entered.notify_one();
        }
    }

    pub(crate) fn depend_no_more(&self) {
        self.dependents.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn has_dependents(&self) -> bool {
        self.dependents.load(Ordering::SeqCst) > 0
    }

    /// Puts a connection to use.
    pub(super) fn attach(&self, link: Arc<Link>) {
        self.set_trouble(None);
        self.link.send_replace(Some(link));
    }

    /// Notes that the connection in use is lost.
    pub(super) fn detach(&self) {
        self.link.send_replace(None);
        if let Some(safe_until) = self.belief().safe_until() {
            self.bond.jeopardize(SafeUntil::At(safe_until));
        }
    }

    /// Returns the connections from now on.
    pub(crate) fn links(&self) -> watch::Receiver<Option<Arc<Link>>> {
        self.link.subscribe()
    }

    /// Returns the connection in use, or waits for the next one.
    pub(crate) async fn link(&self, deadline: BootInstant) -> Result<Arc<Link>, Failure> {
        let mut links = self.link.subscribe();
        let mut ending = self.ending.subscribe();
        if let Some(link) = &*links.borrow_and_update() {
            return Ok(link.clone());
        }
        tokio::select! {
            biased;
            link = links.wait_for(Option::is_some) => {
                let link = link.ok().and_then(|link| link.clone());
                link.ok_or_else(|| Failure::broken(Effect::None))
            }
            _ = ending.wait_for(Option::is_some) => Err(Failure::broken(Effect::None)),
            () = self.clock.sleep_until(deadline) => {
                let late = Failure::late(Effect::None);
                Err(self.trouble().unwrap_or(late))
            }
        }
    }

    /// Returns a connection that is not over by now, or waits for the next one.
    pub(crate) async fn next_link_until(&self, deadline: BootInstant) -> Result<Arc<Link>, Failure> {
        loop {
            let link = self.link(deadline).await?;
            if !link.connection.is_over() {
                return Ok(link);
            }
            self.until_other(&link, deadline).await;
            if self.clock.now() >= deadline {
                return Err(Failure::late(Effect::None));
            }
        }
    }

    /// Returns the connection in use, or waits for the next one, however long that takes; `None` if none comes any
    /// more.
    pub(crate) async fn next_link(&self) -> Option<Arc<Link>> {
        let mut links = self.link.subscribe();
        let mut ending = self.ending.subscribe();
        if let Some(link) = &*links.borrow_and_update() {
            return Some(link.clone());
        }
        tokio::select! {
            biased;
            link = links.wait_for(Option::is_some) => link.ok().and_then(|link| link.clone()),
            _ = ending.wait_for(Option::is_some) => None,
        }
    }

    /// Returns the connection in use, if there is one.
    pub(crate) fn present_link(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone()
    }

    /// Waits until this connection is not in use any more, but not beyond the deadline.
    pub(crate) async fn until_other(&self, link: &Link, deadline: BootInstant) {
        let mut links = self.link.subscribe();
        let is_other =
            |present: &Option<Arc<Link>>| present.as_ref().is_none_or(|present| present.number != link.number);
        tokio::select! {
            biased;
            // The sender lives in what we hold.
            _ = links.wait_for(is_other) => {}
            () = self.clock.sleep_until(deadline) => {}
        }
    }

    /// Waits until a request that failed in passing may be made again, but not beyond the deadline.
    pub(crate) async fn after(&self, failure: &Failure, link: &Link, deadline: BootInstant) {
        if needs_another(failure) {
            self.until_other(link, deadline).await;
        } else {
            let again = self.clock.now().saturating_add(PAUSE);
            self.clock.sleep_until(again.min(deadline)).await;
        }
    }

    /// Waits until the session is over for good, on the service's side too or as far as it can be.
    pub(crate) async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone());
        ended.unwrap_or(Ending::Certain)
    }

    /// A change of what it is meant for, and of nothing that came after that: it may be taken in late.
    pub(crate) fn meant(
        &self,
        conditions: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> TxnRequest {
        #[cfg(feature = "testing")]
        let conditions = if self.testing.ignores_conditions() { Vec::new() } else { conditions };
        txn(conditions, success, failure)
    }

    /// Makes a request that goes through the quorum, so that its answer proves the session too.
    pub(crate) async fn ask<C: Call<Answer: Answer>>(
        &self,
        link: &Link,
        request: C,
        operation: Operation,
        deadline: BootInstant,
    ) -> Result<C::Answer, Failure> {
        let witness = self.belief().witness(link.number);
        let answer = self.send(link, request, operation, deadline).await?;
        let header = header(&answer)?;
        self.note_revision(header.revision);
        let proven = self.belief().prove(witness, header.raft_term);
        if let Some(safe_until) = proven.filter(|_| !link.connection.is_over()) {
            self.bond.renew(SafeUntil::At(safe_until));
        }
        Ok(answer)
    }

    /// Makes a request that proves nothing: one that the member answers by itself.
    pub(crate) async fn send<C: Call>(
        &self,
        link: &Link,
        request: C,
        operation: Operation,
        deadline: BootInstant,
    ) -> Result<C::Answer, Failure> {
        let answer = link.connection.call(request, deadline).await;
        #[cfg(feature = "testing")]
        if answer.is_ok() && self.testing.loses(operation) {
            link.connection.shut();
            return Err(Failure::broken(Effect::Unknown));
        }
        let _ = operation;
        // A request that the service may still take in must not take effect after later ones: the next connection
        // begins with a new stamp. So it is with a new token.
        if answer.as_ref().is_err_and(needs_another) {
            link.connection.shut();
        }
        answer
    }

    /// When a request that is made now must be answered.
    pub(crate) fn deadline(&self) -> BootInstant {
        self.clock.now().saturating_add(self.config.operation_timeout)
    }

    /// How long the session can certainly be believed from now on.
    fn safe_for(&self) -> Duration {
        let now = self.clock.now();
        match self.bond.liveness() {
            Liveness::Held { safe_until } => safe_until.left(now).unwrap_or(Duration::MAX),
            Liveness::Jeopardy { .. } | Liveness::Lost(_) => Duration::ZERO,
        }
    }

    /// Waits until the session may be believed for as long as a grant should be worth, or is lost.
    pub(crate) async fn until_believable(&self) -> Result<(), LossReason> {
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

    /// Waits until a renewal that began after this call is proven, or the session is lost.
    pub(crate) async fn until_renewed(&self) -> Result<(), LossReason> {
        let mut renewals = self.renewals.subscribe();
        // The first may have begun before.
        for _ in 0..2 {
            self.urge.notify_one();
            tokio::select! {
                biased;
                reason = self.bond.lost() => return Err(reason),
                // The sender lives in what we hold.
                _ = renewals.changed() => {}
            }
        }
        Ok(())
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
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => {
                for_lack_of(failure, &self.layout.rights()).into_core(operation, is_write)
            }
        }
    }
}

/// Whether a failure ends the use of its connection.
fn needs_another(failure: &Failure) -> bool {
    failure.kind == FailureKind::Broken || failure.effect == Effect::Unknown
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
