//! The life of a session: its present connection, what is proven of it, how it ended, and the calls under it.
//!
//! What proves a session, and for how long, its backend knows; how it is kept, `keeping`. The calls: `calls`.

mod calls;

pub use calls::refuse;
pub(crate) use calls::{LOOK_ATTEMPTS_MAX, PAUSE};

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, Result, SafeUntil, SessionBond};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::{CallOutbox, ClientTesting, Effect, Failure, Link, Server, SessionTiming};

/// How a session ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The service has ended it: we told it to, or it had done so before.
    Certain,
    /// The service could not be told. It ends the session at its timeout.
    Untold(Failure),
}

/// Until when one session may be believed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Belief {
    safe_until: BootInstant,
}

impl Belief {
    /// Begins with what the opening of the session is worth.
    #[must_use]
    pub const fn until(safe_until: BootInstant) -> Self {
        Self { safe_until }
    }

    /// Notes that a request was answered that proves the session for so long, from the moment when it was sent on.
    pub fn prove(&mut self, sent_at: BootInstant, span: Duration) {
        self.safe_until = self.safe_until.max(sent_at.saturating_add(span));
    }

    /// Until when the session may be believed.
    #[must_use]
    pub const fn safe_until(&self) -> BootInstant {
        self.safe_until
    }
}

/// How a session begins.
#[derive(Debug)]
pub struct Beginning<T> {
    /// How the service names it.
    pub session: String,
    /// What tests do to its client.
    pub testing: ClientTesting,
    /// After how long the service ends the session by itself, and what follows from that.
    pub timing: T,
    /// Until when its opening lets it be believed.
    pub safe_until: BootInstant,
    /// How long one request may take.
    pub operation_timeout: Duration,
}

/// What all parts of one session share on every service. Holding it does not keep the session alive.
pub struct Life<L> {
    /// The clock of all deadlines.
    pub clock: Arc<dyn Clock>,
    /// Where the session lives.
    pub runtime: Handle,
    /// What tests do to its client.
    pub testing: ClientTesting,
    session: String,
    bond: SessionBond,
    belief: Mutex<Belief>,
    /// The timeout that was asked for, and the one that the service has granted.
    pub(crate) asked: Duration,
    pub(crate) timeout: Duration,
    worth_granting: Duration,
    operation_timeout: Duration,
    outbox: CallOutbox<L>,
    /// The connection in use, if there is one.
    link: watch::Sender<Option<Arc<L>>>,
    /// Set once no connection comes any more.
    ending: watch::Sender<Option<Ending>>,
    /// Whether its runtime has ended before it.
    is_abandoned: AtomicBool,
    /// Asks for a proof now.
    urge: Arc<Notify>,
    /// Counts the proofs.
    proofs: watch::Sender<u64>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<Failure>>,
}

impl<L: Link> Life<L> {
    /// Begins with the opening of the session.
    pub fn new(clock: Arc<dyn Clock>, runtime: Handle, beginning: Beginning<impl SessionTiming>) -> Self {
        let Beginning { session, testing, timing, safe_until, operation_timeout } = beginning;
        let bond = SessionBond::new(clock.clone(), SafeUntil::At(safe_until));
        bond.set_notice(timing.notice());
        let urge = Arc::default();
        testing.note_session(&session, &urge);
        Self {
            clock,
            runtime,
            testing,
            session,
            bond,
            belief: Mutex::new(Belief::until(safe_until)),
            asked: timing.timeout(),
            timeout: timing.timeout(),
            worth_granting: timing.worth_granting(),
            operation_timeout,
            outbox: CallOutbox::default(),
            link: watch::Sender::new(None),
            ending: watch::Sender::new(None),
            is_abandoned: AtomicBool::new(false),
            urge,
            proofs: watch::Sender::new(0),
            trouble: Mutex::default(),
        }
    }

    /// Notes that another timeout was asked for than the service has granted.
    #[must_use]
    pub fn asked_for(self, asked: Duration) -> Self {
        Self { asked, ..self }
    }

    /// What ends the session, and until when it is believed.
    pub const fn bond(&self) -> &SessionBond {
        &self.bond
    }

    /// Notes until when the session may be believed, by a rule of the service.
    pub fn believe(&self, safe_until: BootInstant) {
        self.change_belief(|belief| *belief = Belief::until(safe_until));
    }

    /// Notes that a request was answered that proves the session for so long, from the moment when it was sent on.
    pub fn proven_for(&self, sent_at: BootInstant, span: Duration) {
        self.change_belief(|belief| belief.prove(sent_at, span));
        self.proven(sent_at);
    }

    /// The bond is renewed under the lock, so that an older answer takes nothing back.
    fn change_belief(&self, change: impl FnOnce(&mut Belief)) {
        let mut belief = self.belief.lock();
        change(&mut belief);
        self.bond.renew(SafeUntil::At(belief.safe_until()));
    }

    /// Notes that a request to prove the session was answered that was sent at this moment.
    pub fn proven(&self, sent_at: BootInstant) {
        self.bond.note_proof(sent_at);
        self.proofs.send_modify(|count| *count += 1);
    }

    /// Notes that the session is over here, before the service is told.
    pub(crate) fn note_loss(&self) {
        self.testing.note_loss(&self.session);
    }

    /// Asks for a proof now.
    pub fn urge(&self) {
        self.urge.notify_one();
    }

    /// Waits until a proof is asked for.
    pub async fn urged(&self) {
        self.urge.notified().await;
    }

    /// Returns why the last attempt to connect failed.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble.lock().clone()
    }

    /// Notes why an attempt to connect failed, or that there is no trouble any more.
    pub fn set_trouble(&self, trouble: Option<Failure>) {
        *self.trouble.lock() = trouble;
    }

    /// Puts a connection to use; what has waited for it is sent first.
    pub fn attach(&self, link: Arc<L>) {
        self.set_trouble(None);
        self.outbox.attach(&link);
        self.link.send_replace(Some(link));
    }

    /// Notes that the connection in use is lost.
    pub(crate) fn detach(&self) {
        self.outbox.detach();
        self.link.send_replace(None);
        let safe_until = self.belief.lock().safe_until();
        self.bond.jeopardize(SafeUntil::At(safe_until));
    }

    /// Notes that no connection comes any more; the first ending stands until it is known to be certain.
    pub(crate) fn end(&self, ending: Ending) {
        self.detach();
        self.outbox.end();
        self.ending.send_replace(Some(ending));
    }

    /// Notes that the session ends with its runtime; returns the server of the connection that was in use.
    pub(crate) fn abandon(&self) -> Option<Server> {
        let is_lost = matches!(self.bond.liveness(), Liveness::Lost(_));
        self.is_abandoned.store(!is_lost, Ordering::SeqCst);
        self.bond.lose(LossReason::Closed);
        let last = self.link.borrow().as_ref().map(|link| link.server().clone());
        self.detach();
        last
    }

    /// Returns the connection in use, if there is one.
    pub fn present_link(&self) -> Option<Arc<L>> {
        self.link.borrow().clone().filter(|link| !link.is_over())
    }

    /// Returns the connection in use, or waits for the next one, however long that takes; `None` if none comes any
    /// more.
    pub async fn next_link(&self) -> Option<Arc<L>> {
        let (mut links, mut ending) = (self.link.subscribe(), self.ending.subscribe());
        let is_usable = |link: &Option<Arc<L>>| link.as_ref().is_some_and(|link| !link.is_over());
        tokio::select! {
            biased;
            _ = ending.wait_for(Option::is_some) => None,
            link = links.wait_for(is_usable) => link.ok().and_then(|link| link.clone()),
        }
    }

    /// Returns the connection in use, or waits for the next one until this moment.
    ///
    /// # Errors
    ///
    /// Why there is none by then: the last trouble of the session.
    pub async fn next_link_until(&self, deadline: BootInstant) -> Result<Arc<L>, Failure> {
        tokio::select! {
            biased;
            link = self.next_link() => link.ok_or_else(|| Failure::broken(Effect::None)),
            () = self.clock.sleep_until(deadline) => {
                Err(self.trouble().unwrap_or_else(|| Failure::late(Effect::None)))
            }
        }
    }

    /// Waits until this connection is not in use any more, or no other comes.
    pub async fn until_other(&self, link: &L) {
        let (mut links, mut ending) = (self.link.subscribe(), self.ending.subscribe());
        let is_other =
            |present: &Option<Arc<L>>| present.as_ref().is_none_or(|present| !std::ptr::eq(Arc::as_ptr(present), link));
        tokio::select! {
            biased;
            _ = ending.wait_for(Option::is_some) => {}
            _ = links.wait_for(is_other) => {}
        }
    }

    /// Waits until the session is over for the service, or the service could not be told.
    pub async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone());
        ended.unwrap_or_else(|| Ending::Untold(Failure::broken(Effect::None)))
    }

    /// Waits until the service has ended a session that was closed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ConnectionLost`], transient: the service could not be told. It ends the session at its timeout.
    pub async fn closed(&self) -> Result<()> {
        match self.ended().await {
            Ending::Certain => Ok(()),
            Ending::Untold(failure) => {
                let message = format!("the service could not be told: {failure}");
                Err(Error::transient(ErrorKind::ConnectionLost, Operation::Close, message))
            }
        }
    }

    /// How long the session can certainly be believed from now on.
    fn safe_for(&self) -> Duration {
        match self.bond.liveness() {
            Liveness::Held { safe_until } => safe_until.left(self.clock.now()).unwrap_or(Duration::MAX),
            Liveness::Jeopardy { .. } | Liveness::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether the session may be believed now, also if it was closed here.
    pub fn is_believed(&self) -> bool {
        self.clock.now() < self.belief.lock().safe_until()
    }

    /// Whether the session has certainly stood until now, or until it was closed by its user a moment ago.
    pub(crate) fn has_stood(&self) -> bool {
        match self.bond.liveness() {
            Liveness::Held { .. } | Liveness::Jeopardy { .. } | Liveness::Lost(LossReason::Closed) => {
                self.is_believed()
            }
            Liveness::Lost(_) => false,
        }
    }

    /// Waits until the session may be believed for as long as a grant should be worth, or is lost.
    ///
    /// # Errors
    ///
    /// Why it is lost.
    pub async fn until_believable(&self) -> Result<(), LossReason> {
        if self.safe_for() >= self.worth_granting {
            return Ok(());
        }
        loop {
            let mut proofs = self.proofs.subscribe();
            if let Liveness::Lost(reason) = self.bond.liveness() {
                return Err(reason);
            }
            if self.safe_for() >= self.worth_granting {
                return Ok(());
            }
            self.prove(&mut proofs).await?;
        }
    }

    /// Asks for a proof, and waits until one has come.
    async fn prove(&self, proofs: &mut watch::Receiver<u64>) -> Result<(), LossReason> {
        self.urge();
        tokio::select! {
            biased;
            reason = self.bond.lost() => Err(reason),
            // The sender lives in what we hold.
            _ = proofs.changed() => Ok(()),
        }
    }

    /// Waits until a proof that was asked for after this call has come, or the session is lost.
    ///
    /// # Errors
    ///
    /// Why it is lost.
    pub async fn until_proven_anew(&self) -> Result<(), LossReason> {
        let mut proofs = self.proofs.subscribe();
        // The first may have been asked for before.
        for _ in 0..2 {
            self.prove(&mut proofs).await?;
        }
        Ok(())
    }

    /// Notes that the service has ended the session.
    pub fn expire(&self) {
        self.bond.lose(LossReason::Expired);
    }
}

impl<L: Link> fmt::Debug for Life<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_connected = self.present_link().is_some();
        let mut shown = formatter.debug_struct("Life");
        shown.field("bond", &self.bond).field("is_connected", &is_connected).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_believed_from_the_sending_of_a_proof() {
        let at = |seconds: u64| BootInstant::from_nanos(seconds * 1_000_000_000);
        let span = Duration::from_secs(20);
        let mut belief = Belief::until(at(21));
        belief.prove(at(4), span);
        assert_eq!(belief.safe_until(), at(24));
        belief.prove(at(3), span);
        assert_eq!(belief.safe_until(), at(24), "an older one takes nothing back");
    }
}
