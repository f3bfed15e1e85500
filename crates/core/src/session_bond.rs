//! The bond of a session: its liveness, shared by all that was made under it.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::clock::{BootInstant, Clock};
use crate::liveness::{Liveness, LossReason, SafeUntil};

/// How long a service keeps a session without a sign of life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionTimeout {
    /// What we asked for.
    pub asked: Duration,
    /// What it granted.
    pub granted: Duration,
}

impl SessionTimeout {
    /// Tells whether the service granted another timeout than was asked for.
    pub fn is_clipped(&self) -> bool {
        self.asked != self.granted
    }
}

/// The liveness of one session, shared by all that was made under it.
///
/// A backend renews it and ends it; guards and waiters read it. A loss is final: neither a renewal nor a later session
/// revives it. Cloning is cheap and gives the same bond.
#[derive(Clone)]
pub struct SessionBond {
    state: Arc<BondState>,
}

struct BondState {
    clock: Arc<dyn Clock>,
    safe_until_nanos: AtomicU64,
    /// [`SessionBond::NO_NOTICE`] where there is no deadline.
    notice_nanos: AtomicU64,
    /// Whether the connection to the service is open.
    is_connected: AtomicBool,
    /// Wakes waiters for a loss, at each change, which is noted before.
    changes: watch::Sender<()>,
    /// Wakes waiters for a renewal.
    renewals: Notify,
    lost: OnceLock<LossReason>,
    /// Empty where sessions have no timeout.
    timeout: OnceLock<SessionTimeout>,
    meter: OnceLock<Arc<dyn SessionMeter>>,
}

/// Measures how a session is kept. It is called where that happens, so it must be quick; nothing flows back from it.
pub trait SessionMeter: Send + Sync {
    /// The service has proven the session alive, this long after it was asked to.
    fn proven(&self, took: Duration);

    /// The deadline was moved, when this was left before it.
    fn renewed(&self, left: Duration);
}

impl SessionBond {
    const NO_NOTICE: u64 = u64::MAX;

    /// Makes the bond of a session that was just proven alive.
    pub fn new(clock: Arc<dyn Clock>, safe_until: SafeUntil) -> Self {
        let state = BondState {
            clock,
            safe_until_nanos: AtomicU64::new(safe_until.to_nanos()),
            notice_nanos: AtomicU64::new(Self::NO_NOTICE),
            is_connected: AtomicBool::new(true),
            changes: watch::Sender::new(()),
            renewals: Notify::new(),
            lost: OnceLock::new(),
            timeout: OnceLock::new(),
            meter: OnceLock::new(),
        };
        Self { state: Arc::new(state) }
    }

    /// Returns the clock by which it is judged.
    pub fn clock(&self) -> &dyn Clock {
        &*self.state.clock
    }

    /// States the [`SessionBond::notice`]: what follows from the timeout that the service has granted.
    pub fn set_notice(&self, notice: Duration) {
        let nanos = u64::try_from(notice.as_nanos()).unwrap_or(u64::MAX).min(Self::NO_NOTICE - 1);
        self.state.notice_nanos.store(nanos, Ordering::Release);
    }

    /// Returns the least time between now and the deadline while renewals succeed. A holder under this session is
    /// certain to be warned this early that a renewal has failed. `None` where there is no deadline.
    ///
    /// It may shrink when the service grants a shorter timeout.
    pub fn notice(&self) -> Option<Duration> {
        let nanos = self.state.notice_nanos.load(Ordering::Acquire);
        (nanos != Self::NO_NOTICE).then(|| Duration::from_nanos(nanos))
    }

    /// States the timeout that the session was opened with; the first one stays.
    pub fn set_timeout(&self, timeout: SessionTimeout) {
        // A session is opened once.
        let _ = self.state.timeout.set(timeout);
    }

    /// Returns how long the service keeps this session without a sign of life; `None` where sessions have no timeout.
    pub fn timeout(&self) -> Option<SessionTimeout> {
        self.state.timeout.get().copied()
    }

    /// Has this measure the session from now on; the first one stays.
    pub fn measure(&self, meter: Arc<dyn SessionMeter>) {
        // A session has one keeper, which says it once.
        let _ = self.state.meter.set(meter);
    }

    /// Notes that a request which proves the session alive, and was sent at this moment for that purpose, was answered.
    pub fn note_proof(&self, sent_at: BootInstant) {
        if let Some(meter) = self.state.meter.get() {
            meter.proven(self.state.clock.now().saturating_duration_since(sent_at));
        }
    }

    /// Moves the deadline, unless it has passed: then the session has lapsed, also if the service still keeps it.
    pub fn renew(&self, safe_until: SafeUntil) {
        if self.liveness().is_held() {
            let nanos = safe_until.to_nanos();
            let before = self.state.safe_until_nanos.swap(nanos, Ordering::AcqRel);
            let is_sooner = nanos < before;
            if let Some(meter) = self.state.meter.get()
                && let Some(left) = SafeUntil::from_nanos(before).left(self.state.clock.now())
            {
                meter.renewed(left);
            }
            // A later deadline wakes none: waiters come across it at the earlier one.
            if !self.state.is_connected.swap(true, Ordering::AcqRel) || is_sooner {
                self.state.changes.send_replace(());
            }
            self.state.renewals.notify_waiters();
        }
    }

    /// Notes that the connection to the service broke.
    pub fn jeopardize(&self, safe_until: SafeUntil) {
        if self.liveness().is_held() {
            self.state.safe_until_nanos.store(safe_until.to_nanos(), Ordering::Release);
            self.disconnect();
        }
    }

    /// Ends the session for good; the first reason stays.
    pub fn lose(&self, reason: LossReason) {
        if self.state.lost.set(reason).is_ok() {
            self.disconnect();
        }
    }

    fn disconnect(&self) {
        self.state.is_connected.store(false, Ordering::Release);
        self.state.changes.send_replace(());
    }

    /// Returns what may be believed of the session now.
    pub fn liveness(&self) -> Liveness {
        if let Some(&reason) = self.state.lost.get() {
            return Liveness::Lost(reason);
        }
        let safe_until = self.deadline();
        if let SafeUntil::At(deadline) = safe_until
            && self.state.clock.now() >= deadline
        {
            self.lose(LossReason::Lapsed);
            return Liveness::Lost(*self.state.lost.get().expect("a reason was just set"));
        }
        let is_connected = self.state.is_connected.load(Ordering::Acquire);
        if is_connected { Liveness::Held { safe_until } } else { Liveness::Jeopardy { safe_until } }
    }

    /// Returns the deadline, also one that has passed: until then the session was believed at most.
    pub fn deadline(&self) -> SafeUntil {
        SafeUntil::from_nanos(self.state.safe_until_nanos.load(Ordering::Acquire))
    }

    /// Waits until the session is lost for good; never ends if it never is. Dropping the future changes nothing. While
    /// the connection is lost, it waits until the deadline passes or the service answers.
    pub async fn lost(&self) -> LossReason {
        let mut changes = self.state.changes.subscribe();
        loop {
            match self.liveness() {
                Liveness::Lost(reason) => return reason,
                held => self.until_changed(&mut changes, held).await,
            }
        }
    }

    /// Waits until the liveness of the session differs from `seen`.
    pub async fn changed(&self, seen: Liveness) {
        let mut changes = self.state.changes.subscribe();
        loop {
            let liveness = self.liveness();
            if std::mem::discriminant(&liveness) != std::mem::discriminant(&seen) {
                return;
            }
            self.until_changed(&mut changes, liveness).await;
        }
    }

    /// Waits until something else may be believed than `seen`: until the session is renewed, in jeopardy or lost.
    pub async fn renewed(&self, seen: Liveness) {
        let mut changes = self.state.changes.subscribe();
        loop {
            let mut renewed = pin!(self.state.renewals.notified());
            // Enabled before the look, so that a renewal in between is not missed.
            renewed.as_mut().enable();
            let liveness = self.liveness();
            if liveness != seen {
                return;
            }
            tokio::select! {
                () = renewed => {}
                () = self.until_changed(&mut changes, liveness) => {}
            }
        }
    }

    /// Waits until the session is renewed, in jeopardy or lost, or its deadline passes.
    async fn until_changed(&self, changes: &mut watch::Receiver<()>, seen: Liveness) {
        match seen.safe_until() {
            Some(SafeUntil::At(deadline)) => {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.state.clock.sleep_until(deadline) => {}
                }
            }
            // The sender lives in `self.state`, so this cannot fail.
            Some(SafeUntil::ProcessEnd) | None => drop(changes.changed().await),
        }
    }
}

impl fmt::Debug for SessionBond {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SessionBond").field(&self.liveness()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;

    fn bond(seconds: u64) -> (Arc<TestClock>, SessionBond) {
        let clock = Arc::new(TestClock::new());
        let safe_until = SafeUntil::At(clock.now().saturating_add(Duration::from_secs(seconds)));
        (clock.clone(), SessionBond::new(clock, safe_until))
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_not_renewed_lapses_at_its_deadline() {
        let (clock, bond) = bond(20);
        let start = clock.now();
        assert_eq!(bond.lost().await, LossReason::Lapsed);
        assert_eq!(clock.now().saturating_duration_since(start), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_after_the_deadline_revives_nothing() {
        let (clock, bond) = bond(1);
        tokio::time::advance(Duration::from_secs(2)).await;
        bond.renew(SafeUntil::At(clock.now().saturating_add(Duration::from_secs(20))));
        assert_eq!(bond.liveness(), Liveness::Lost(LossReason::Lapsed));
    }

    #[tokio::test(start_paused = true)]
    async fn jeopardy_keeps_the_deadline_and_a_renewal_ends_it() {
        let (clock, bond) = bond(20);
        let until = |seconds| SafeUntil::At(clock.now().saturating_add(Duration::from_secs(seconds)));
        bond.jeopardize(until(5));
        assert_eq!(bond.liveness(), Liveness::Jeopardy { safe_until: until(5) });
        bond.renew(until(9));
        assert_eq!(bond.liveness(), Liveness::Held { safe_until: until(9) });
        bond.lose(LossReason::Expired);
        bond.lose(LossReason::Closed);
        assert_eq!(bond.lost().await, LossReason::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_wakes_those_that_wait_for_one_and_so_does_a_loss() {
        let (clock, bond) = bond(20);
        for is_renewed in [true, false] {
            let seen = bond.liveness();
            let waiting = tokio::spawn({
                let bond = bond.clone();
                async move { bond.renewed(seen).await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            if is_renewed {
                bond.renew(SafeUntil::At(clock.now().saturating_add(Duration::from_secs(40))));
            } else {
                bond.lose(LossReason::Expired);
            }
            waiting.await.unwrap();
        }
    }

    #[derive(Default)]
    struct Measured(std::sync::Mutex<Vec<(&'static str, Duration)>>);

    impl SessionMeter for Measured {
        fn proven(&self, took: Duration) {
            self.0.lock().unwrap().push(("proven", took));
        }

        fn renewed(&self, left: Duration) {
            self.0.lock().unwrap().push(("renewed", left));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_proof_took_and_what_was_left_at_a_renewal_are_measured() {
        let (clock, bond) = bond(20);
        let meter = Arc::new(Measured::default());
        bond.measure(meter.clone());
        let sent_at = clock.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        bond.note_proof(sent_at);
        bond.renew(SafeUntil::At(sent_at.saturating_add(Duration::from_secs(40))));
        bond.renew(SafeUntil::ProcessEnd);
        // What had no deadline has no time left before it.
        bond.renew(SafeUntil::ProcessEnd);
        let seconds = [("proven", 3), ("renewed", 17), ("renewed", 37)];
        let expected = seconds.map(|(what, seconds)| (what, Duration::from_secs(seconds)));
        assert_eq!(*meter.0.lock().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_wakes_its_waiters() {
        let clock = Arc::new(TestClock::new());
        let bond = SessionBond::new(clock, SafeUntil::ProcessEnd);
        let watcher = tokio::spawn({
            let bond = bond.clone();
            async move { bond.lost().await }
        });
        tokio::task::yield_now().await;
        bond.lose(LossReason::Closed);
        assert_eq!(watcher.await.unwrap(), LossReason::Closed);
    }
}
