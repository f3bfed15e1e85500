//! The answer to whether a lock is still held, for the work under it, and the grant of its place.

pub(crate) mod list;

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    ContenderId, FencingToken, Home, Liveness, LivenessAt, LossReason, QueueName, Revocation, SafeUntil, SessionBond,
    Standing, Ticket,
};
use tokio::sync::Notify;

use crate::event::meter::MeteredHold;
use crate::event::{Event, Observers};

/// What a hold is in a fork: its parent has it.
const NOT_OURS: Liveness = Liveness::Lost(LossReason::Closed);

/// The answer to whether a lock is still held; cheap to clone, and it never releases.
///
/// In the guide: [losing a lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/losing_a_lock/index.html).
#[derive(Clone)]
pub struct Hold {
    state: Arc<HoldState>,
}

/// What is held, by which process, and until when.
pub(crate) struct HoldParts {
    /// The process that has it.
    pub(crate) home: Home,
    /// The session's, and the clock by which the hold is judged.
    pub(crate) bond: SessionBond,
    pub(crate) observers: Arc<Observers>,
    pub(crate) queue: QueueName,
    pub(crate) grant: Grant,
    /// What has the place left after this hold, if it might be held again without the service.
    pub(crate) end_of_place: Option<EndOfPlace>,
    /// When it ends by its own limit.
    pub(crate) ends_at: Option<BootInstant>,
    pub(crate) holding: MeteredHold,
}

struct HoldState {
    held: HoldParts,
    /// Why it was lost, once that was seen.
    loss: OnceLock<LossReason>,
    /// Set when the guard gave the lock back, and then told to the waiters for the end of the hold.
    released: AtomicBool,
    ended: Notify,
    /// Set when a request to give up arrived, so that observers are told once.
    heard: OnceLock<()>,
}

impl Hold {
    pub(crate) fn new(held: HoldParts) -> Self {
        let (loss, released, ended, heard) = (OnceLock::new(), AtomicBool::new(false), Notify::new(), OnceLock::new());
        Self { state: Arc::new(HoldState { held, loss, released, ended, heard }) }
    }

    /// Notes why the hold was lost, once it is known; the first reason stays, and observers are told of it.
    pub(crate) fn note_loss(&self, reason: LossReason) -> LossReason {
        let HoldState { held, loss, .. } = &*self.state;
        if loss.set(reason).is_ok() {
            let now = held.bond.clock().now();
            held.holding.end(now);
            let (lock, token, late) = (held.queue.clone(), held.grant.token, self.state.late(now));
            held.observers.emit(&Event::Lost { lock, token, reason, late });
        }
        loss.get().copied().unwrap_or(reason)
    }

    /// Notes that the guard gives the lock back.
    pub(crate) fn note_release(&self, now: BootInstant) {
        self.state.held.holding.end(now);
        self.state.released.store(true, Ordering::Release);
        self.state.ended.notify_waiters();
    }

    fn is_released(&self) -> bool {
        self.state.released.load(Ordering::Acquire)
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &QueueName {
        &self.state.held.queue
    }

    /// Returns our identity in the queue.
    pub fn contender(&self) -> &ContenderId {
        &self.state.held.grant.id
    }

    /// Returns our contender's ticket, for a program that runs under this hold:
    /// [`KeeperBuilder::within`](crate::KeeperBuilder::within).
    pub fn ticket(&self) -> Ticket {
        self.state.held.grant.ticket
    }

    /// Returns the grant's token: greater than that of every grant before.
    pub fn fencing_token(&self) -> FencingToken {
        self.state.held.grant.token
    }

    /// Returns the place in the queue and the token, for another place beside it.
    pub(crate) fn place(&self) -> (&ContenderId, FencingToken) {
        (self.contender(), self.fencing_token())
    }

    /// Tells whether the lock is held now. Once the answer was no, it never is yes again.
    pub fn is_held(&self) -> bool {
        self.liveness().is_held()
    }

    /// Returns what may be believed now, looked up at the call.
    pub fn liveness(&self) -> Liveness {
        if self.state.held.home.is_left() {
            return NOT_OURS;
        }
        self.noted(self.look())
    }

    /// As [`Hold::liveness`], for the end of a turn.
    pub(crate) fn liveness_at_turn(&self, now: BootInstant) -> Liveness {
        self.noted(self.judge(self.state.held.grant.standing.liveness(LivenessAt::Turn(now))))
    }

    /// Keeps a loss that a look has found.
    fn noted(&self, liveness: Liveness) -> Liveness {
        match liveness {
            Liveness::Lost(LossReason::Released) => Liveness::Lost(LossReason::Released),
            Liveness::Lost(reason) => Liveness::Lost(self.note_loss(reason)),
            liveness => liveness,
        }
    }

    /// Tells whether it seems to be held, and tells no observer of what it finds.
    pub(crate) fn seems_held(&self) -> bool {
        self.look().is_held()
    }

    /// Looks what may be believed now, and tells no observer of what it finds.
    fn look(&self) -> Liveness {
        // In this order, since to the standing our own release looks like a removal.
        self.judge(self.state.held.grant.standing.liveness(LivenessAt::Now))
    }

    /// Judges by what the standing said a moment ago.
    fn judge(&self, standing: Liveness) -> Liveness {
        if self.is_released() {
            return Liveness::Lost(LossReason::Released);
        }
        match self.state.loss.get() {
            // Leaving at its limit looks like a removal too.
            Some(&first) => Liveness::Lost(first),
            None => self.state.limited(standing),
        }
    }

    /// Returns how long from now the hold may be believed without further replies of the service: zero if it is lost,
    /// `None` if the service has no timeouts.
    pub fn safe_for(&self) -> Option<Duration> {
        match self.liveness().safe_until() {
            Some(safe_until) => safe_until.left(self.state.held.bond.clock().now()),
            None => Some(Duration::ZERO),
        }
    }

    /// Returns how long before the hold's deadline its holder is certain to be warned that renewals fail. Work that
    /// needs longer than this to end safely should not begin. `None` if the service has no timeouts.
    ///
    /// While renewals go well, [`Hold::safe_for`] does not fall below it.
    pub fn notice(&self) -> Option<Duration> {
        self.state.held.bond.notice()
    }

    /// Waits until the lock is no longer held, and returns the reason; [`LossReason::Released`] if its guard gave it
    /// back. [`Hold::is_held`] is false before this returns.
    ///
    /// # On connection loss
    ///
    /// Returns when the hold may no longer be believed, before another contender is granted the lock, under the
    /// service's stated bounds.
    pub async fn lost(&self) -> LossReason {
        if self.state.held.home.is_left() {
            return LossReason::Closed;
        }
        let mut ended = pin!(self.state.ended.notified());
        // Enabled before the first look, so that a release in between is not missed.
        ended.as_mut().enable();
        let released = async {
            if !self.is_released() {
                ended.await;
            }
        };
        let limit = async {
            match self.state.held.ends_at {
                Some(ends_at) => self.state.held.bond.clock().sleep_until(ends_at).await,
                None => std::future::pending().await,
            }
        };
        let reason = tokio::select! {
            biased;
            () = released => LossReason::Released,
            reason = self.state.held.grant.standing.lost() => reason,
            () = limit => LossReason::MaxHold,
        };
        // The standing reports our own release as a removal, and the first reason stays.
        match self.liveness() {
            Liveness::Lost(reason) => reason,
            Liveness::Held { .. } | Liveness::Jeopardy { .. } => reason,
        }
    }

    /// Waits until a client or an operator asks that the lock be given up, and returns the request with its reason, if
    /// one was given. Never ends if no request comes.
    ///
    /// It is a request: the holder decides. Each wait returns it, also if it was made before the wait began, in an
    /// earlier wait that was dropped, or during a connection loss.
    #[doc(alias = "makeRevocable")]
    #[doc(alias = "RevocationListener")]
    pub async fn revoked(&self) -> Revocation {
        let revocation = self.state.held.grant.standing.revoked().await;
        if self.state.heard.set(()).is_ok() {
            let HoldParts { queue, grant, observers, .. } = &self.state.held;
            let (lock, token) = (queue.clone(), grant.token);
            observers.emit(&Event::Revoked { lock, token, revocation: revocation.clone() });
        }
        revocation
    }

    /// Returns the place that is held, as its service sees it, for what one service alone offers; `None` once the hold
    /// is over, also if its place is kept for a least time.
    ///
    /// What is done with the place may outlast this hold, so a [hand-off](crate::Handoff) does not pass it on.
    pub fn standing(&self) -> Option<&dyn Standing> {
        if !self.is_held() {
            return None;
        }
        if let Some(end_of_place) = &self.state.held.end_of_place {
            end_of_place.note();
        }
        Some(&*self.state.held.grant.standing)
    }
}

impl HoldState {
    /// How long before now it could be believed last.
    fn late(&self, now: BootInstant) -> Duration {
        let deadline = match self.held.bond.deadline() {
            SafeUntil::At(deadline) => Some(deadline),
            SafeUntil::ProcessEnd => None,
        };
        let over = [deadline, self.held.ends_at].into_iter().flatten().map(|end| now.saturating_duration_since(end));
        over.max().unwrap_or_default()
    }

    /// Cuts the deadline of the place at the limit of the hold.
    fn limited(&self, standing: Liveness) -> Liveness {
        let Some(ends_at) = self.held.ends_at else {
            return standing;
        };
        let cap = |safe_until| match safe_until {
            SafeUntil::At(deadline) => SafeUntil::At(deadline.min(ends_at)),
            SafeUntil::ProcessEnd => SafeUntil::At(ends_at),
        };
        match standing {
            Liveness::Lost(reason) => Liveness::Lost(reason),
            _ if self.held.bond.clock().now() >= ends_at => Liveness::Lost(LossReason::MaxHold),
            Liveness::Held { safe_until } => Liveness::Held { safe_until: cap(safe_until) },
            Liveness::Jeopardy { safe_until } => Liveness::Jeopardy { safe_until: cap(safe_until) },
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hold")
            .field("lock", &self.state.held.queue.as_str())
            .field("token", &self.state.held.grant.token)
            .field("liveness", &self.look())
            .finish()
    }
}

/// The grant of a place, or of one turn of it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) id: ContenderId,
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
    pub(crate) standing: Arc<dyn Standing>,
}

/// The grants of one local queue whose places are left at the end of the present turn, since something else depends on
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndingGrants {
    /// The number of the last one. Numbers of grants grow, and those before it are over.
    last: Arc<AtomicU64>,
}

impl EndingGrants {
    pub(crate) fn has(&self, grant: u64) -> bool {
        self.last.load(Ordering::Acquire) >= grant
    }

    pub(crate) fn end_of(&self, grant: u64) -> EndOfPlace {
        EndOfPlace { ending: self.clone(), grant }
    }
}

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant have the same, and after the turn that notes it there is none.
#[derive(Clone, Debug)]
pub(crate) struct EndOfPlace {
    ending: EndingGrants,
    grant: u64,
}

impl EndOfPlace {
    pub(crate) fn note(&self) {
        self.ending.last.fetch_max(self.grant, Ordering::AcqRel);
    }
}
