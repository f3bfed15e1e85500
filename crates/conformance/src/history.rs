//! The record of what contenders saw, in one order, and the checker of its rules.
//!
//! The contenders' own tasks make the records, on the safe side: a call before it is made, a join and a grant after
//! their answers, a release before it is asked for. So an interval in a history lies within the true one, and a rule
//! that a history breaks was really broken.

mod check;

pub(crate) use check::{Limits, check};

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_recipes::{Event, Observer};
use parking_lot::Mutex;

/// One thing that happened, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Record {
    /// When it was recorded.
    pub(crate) at: BootInstant,
    /// What happened.
    pub(crate) what: What,
}

/// What a contender asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asks {
    /// The lock, alone.
    Alone,
    /// A share of it.
    Share,
    /// This many permits of it.
    Permits(u32),
}

impl Asks {
    /// Tells whether the two may not be held at the same time. Permits exclude one another by their number alone.
    pub(super) const fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Share, Self::Share) | (Self::Permits(_), Self::Permits(_)))
    }

    pub(super) const fn permits(self) -> u32 {
        match self {
            Self::Permits(permits) => permits,
            Self::Alone | Self::Share => 0,
        }
    }
}

/// What happened to a contender; the number `attempt` names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// It is about to ask for the lock, through this keeper.
    Calling { attempt: u32, keeper: u32, asks: Asks },
    /// It has a place in the queue; the last one counts.
    Joined { attempt: u32 },
    /// A call of it failed in a way that may pass, and it tries again.
    Retrying { attempt: u32, error: String },
    /// It was granted the lock.
    Granted {
        attempt: u32,
        /// The grant's token; the least of several permits'.
        token: FencingToken,
        /// Whether the guard said, when this was recorded, that it was held.
        held: bool,
    },
    /// It is about to give the lock back.
    Releasing { attempt: u32 },
    /// It stopped asking: its time was up, or it was cancelled, or it was refused.
    GaveUp { attempt: u32 },
    /// The session of a keeper is about to be ended. From here on its holds are not relied on, and neither are new ones
    /// until the session has ended.
    Upset { keeper: u32 },
    /// The session of a keeper was ended.
    Settled { keeper: u32 },
    /// All contenders are done, and this many are left in the queue.
    Drained { left: usize },
}

tokio::task_local! {
    /// The attempt that a task runs for, so that its events are recorded with it.
    static ATTEMPT: u32;
}

/// A history that is being recorded. Its clones are the same history.
#[derive(Clone)]
pub(crate) struct History {
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<Vec<Record>>>,
}

impl History {
    /// Starts an empty history.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, records: Arc::default() }
    }

    /// Records what happened now.
    pub(crate) fn record(&self, what: What) {
        self.record_seen(|| what);
    }

    /// Looks at something and records it, with no other record between: what was seen before another task's record
    /// stands before it. The look records nothing itself.
    pub(crate) fn record_seen(&self, look: impl FnOnce() -> What) {
        let mut records = self.records.lock();
        let at = self.clock.now();
        records.push(Record { at, what: look() });
    }

    /// Runs `asking` on behalf of an attempt, so that a keeper with this history as its observer records its joins.
    pub(crate) async fn on_behalf_of<Asking: Future>(&self, attempt: u32, asking: Asking) -> Asking::Output {
        ATTEMPT.scope(attempt, asking).await
    }

    /// Returns what was recorded so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.lock().clone()
    }
}

impl Observer for History {
    fn on_event(&self, event: &Event) {
        // What happens outside of any attempt is not recorded.
        let _ = ATTEMPT.try_with(|&attempt| match event {
            Event::Joined { .. } => self.record(What::Joined { attempt }),
            Event::Retrying { error, .. } => self.record(What::Retrying { attempt, error: format!("{error:#}") }),
            _ => {}
        });
    }
}

impl fmt::Debug for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.records()).finish()
    }
}
