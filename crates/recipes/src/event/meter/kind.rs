//! The handles of one kind of lock, and the outcomes that its calls may have.

use std::sync::{Arc, OnceLock};

use ::metrics::{Counter, Gauge, Histogram, Label, gauge, histogram};
use lockkeeper_core::clock::Clock;

use crate::event::meter::names;

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
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

impl Outcome {
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
    acquire: [OnceLock<Histogram>; Outcome::ALL.len()],
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

    pub(super) fn acquire(&self, outcome: Outcome) -> &Histogram {
        self.acquire[outcome as usize].get_or_init(|| {
            let outcome = Label::new("outcome", outcome.name());
            histogram!(names::ACQUIRE_SECONDS, [self.labels.clone(), vec![outcome]].concat())
        })
    }
}
