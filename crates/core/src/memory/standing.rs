//! The service's facts about one contender that its owner and others may wait for: whether it stands, and what it is
//! asked. The service keeps it with the contender, and the owner asks it as its standing.

use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::contender::Revocation;
use crate::future::BoxFuture;
use crate::liveness::Liveness;
use crate::liveness::LossReason;
use crate::session_bond::SessionBond;
use crate::standing::{LivenessAt, Standing};

/// The standing of one contender.
#[derive(Debug)]
pub(super) struct MemoryStanding {
    /// Itself, for the futures that it makes.
    me: Weak<Self>,
    bond: SessionBond,
    granted_unix: OnceLock<Duration>,
    /// Set to the reason when the contender leaves.
    departed: OnceLock<LossReason>,
    revocation: Mutex<Option<Revocation>>,
    departure: Notify,
    request: Notify,
}

impl MemoryStanding {
    pub(super) fn new(bond: SessionBond) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            bond,
            granted_unix: OnceLock::new(),
            departed: OnceLock::new(),
            revocation: Mutex::default(),
            departure: Notify::new(),
            request: Notify::new(),
        })
    }

    /// Notes that the contender leaves.
    pub(super) fn depart(&self, reason: LossReason) {
        // A contender leaves once.
        let _ = self.departed.set(reason);
        self.departure.notify_waiters();
    }

    /// Waits until the contender leaves, and returns why.
    pub(super) async fn departed(&self) -> LossReason {
        until(&self.departure, || self.departed.get().copied()).await
    }

    /// Asks the contender to give up; it replaces an earlier request.
    pub(super) fn revoke(&self, revocation: Revocation) {
        *self.revocation.lock() = Some(revocation);
        self.request.notify_waiters();
    }

    /// Returns what the contender was asked last.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        self.revocation.lock().clone()
    }

    /// Returns when the contender was granted what it holds, if it was.
    pub(super) fn granted_unix(&self) -> Option<Duration> {
        self.granted_unix.get().copied()
    }

    fn me(&self) -> Arc<Self> {
        self.me.upgrade().expect("what can be called has an owner")
    }
}

/// Looks again at each change until there is something to be seen.
async fn until<T>(change: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        let mut changed = pin!(change.notified());
        // Enabled before the look, so that a change in between is not missed.
        changed.as_mut().enable();
        if let Some(seen) = look() {
            return seen;
        }
        changed.await;
    }
}

impl Standing for MemoryStanding {
    fn liveness(&self, _at: LivenessAt) -> Liveness {
        match (self.bond.liveness(), self.departed.get()) {
            (lost @ Liveness::Lost(_), _) => lost,
            (_, Some(&reason)) => Liveness::Lost(reason),
            (held, None) => held,
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let me = self.me();
        Box::pin(async move {
            tokio::select! {
                biased;
                reason = me.bond.lost() => reason,
                reason = me.departed() => reason,
            }
        })
    }

    fn granted(&self) {
        self.granted_unix.get_or_init(|| self.bond.clock().unix_time());
    }

    /// A contender that is gone is asked nothing any more.
    fn revoked(&self) -> BoxFuture<Revocation> {
        let me = self.me();
        Box::pin(async move { until(&me.request, || me.revocation()).await })
    }
}
