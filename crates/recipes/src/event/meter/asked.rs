//! One call that asks for a lock, from its beginning to its outcome, and one hold, from its grant to its end; the
//! handles of the kind of lock by which both are recorded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ::metrics::{Counter, Gauge, Histogram, Label, gauge, histogram};
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Wait};

use crate::event::meter::names;

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallOutcome {
    Granted,
    /// The lock was not free, and the call was not to wait.
    Busy,
    Timeout,
    /// Its future was dropped, or its task panicked.
    Cancelled,
    /// Its place in line was lost for good.
    Lost,
    Error,
}

impl CallOutcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Granted, Self::Busy, Self::Timeout, Self::Cancelled, Self::Lost, Self::Error];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Error => "error",
        }
    }
}

/// The handles of one kind of lock.
pub(super) struct OfKind {
    pub(super) clock: Arc<dyn Clock>,
    labels: Vec<Label>,
    /// Each is asked for when there is something to record, since most outcomes are rare.
    acquire: [OnceLock<Histogram>; CallOutcome::ALL.len()],
    pub(super) timeouts: Counter,
    pub(super) hold: Histogram,
    pub(super) waiters: Gauge,
    pub(super) held: Gauge,
}

impl OfKind {
    /// Asks the recorder for the handles of these labels; `timeouts` counts for all kinds.
    pub(super) fn new(clock: Arc<dyn Clock>, labels: Vec<Label>, timeouts: Counter) -> Self {
        let hold = histogram!(names::HOLD_SECONDS, labels.clone());
        let (waiters, held) = (gauge!(names::WAITERS, labels.clone()), gauge!(names::HELD, labels.clone()));
        Self { clock, labels, acquire: Default::default(), timeouts, hold, waiters, held }
    }

    pub(super) fn acquire(&self, outcome: CallOutcome) -> &Histogram {
        self.acquire[outcome as usize].get_or_init(|| {
            let outcome = Label::new("outcome", outcome.name());
            histogram!(names::ACQUIRE_SECONDS, [self.labels.clone(), vec![outcome]].concat())
        })
    }
}

/// The nanoseconds of a second.
const NANOS_PER_SECOND: f64 = 1e9;

/// A call that waits; dropping it says that it was cancelled.
pub(crate) struct MeteredCall {
    /// Absent once it has ended.
    of: Option<Arc<OfKind>>,
    /// Absent for one more place of a call that is measured already.
    begun_at: Option<BootInstant>,
}

impl MeteredCall {
    pub(super) fn begin(of: Arc<OfKind>, begun_at: BootInstant) -> Self {
        of.waiters.increment(1.0);
        Self { of: Some(of), begun_at: Some(begun_at) }
    }

    /// Returns what becomes the hold of one more place of the same call.
    pub(crate) fn another(&self) -> Self {
        Self { of: self.of.clone(), begun_at: None }
    }

    /// Notes the grant; what was asked for is held from then on.
    pub(crate) fn granted(mut self, at: BootInstant) -> MeteredHold {
        let of = self.finish(CallOutcome::Granted, Some(at)).expect("a call ends once");
        of.held.increment(1.0);
        MeteredHold { of, granted_at: at, is_over: AtomicBool::new(false) }
    }

    /// Notes that it was granted nothing in the time that it had.
    pub(crate) fn none(mut self, wait: Wait) {
        let outcome = if wait.is_none() { CallOutcome::Busy } else { CallOutcome::Timeout };
        if let (CallOutcome::Timeout, Some(of)) = (outcome, &self.of) {
            of.timeouts.increment(1);
        }
        self.finish(outcome, None);
    }

    /// Notes that it has failed.
    pub(crate) fn failed(mut self, error: &Error) {
        let outcome = match error.kind() {
            ErrorKind::Lost(_) | ErrorKind::Removed => CallOutcome::Lost,
            _ => CallOutcome::Error,
        };
        self.finish(outcome, None);
    }

    /// Ends it without an outcome: another call goes on for it.
    pub(crate) fn goes_on(mut self) {
        if let Some(of) = self.of.take() {
            of.waiters.decrement(1.0);
        }
    }

    fn finish(&mut self, outcome: CallOutcome, at: Option<BootInstant>) -> Option<Arc<OfKind>> {
        let of = self.of.take()?;
        if let Some(begun_at) = self.begun_at {
            of.waiters.decrement(1.0);
            let ended_at = at.unwrap_or_else(|| of.clock.now());
            of.acquire(outcome).record(seconds_between(begun_at, ended_at));
        }
        Some(of)
    }
}

impl Drop for MeteredCall {
    fn drop(&mut self) {
        self.finish(CallOutcome::Cancelled, None);
    }
}

/// A hold that is measured until its end.
pub(crate) struct MeteredHold {
    of: Arc<OfKind>,
    granted_at: BootInstant,
    is_over: AtomicBool,
}

impl MeteredHold {
    /// Notes the end: the first of the loss and the release.
    pub(crate) fn end(&self, now: BootInstant) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.of.held.decrement(1.0);
            self.of.hold.record(seconds_between(self.granted_at, now));
        }
    }
}

/// Computes what is recorded, by as little as can be: mostly no recorder is there to take it.
fn seconds_between(earlier: BootInstant, later: BootInstant) -> f64 {
    later.as_nanos().saturating_sub(earlier.as_nanos()) as f64 / NANOS_PER_SECOND
}
