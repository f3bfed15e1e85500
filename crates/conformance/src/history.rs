//! The recorder of a history: what contenders saw, in one order. The rules, and their checker, are those of
//! `lockkeeper-history`.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_history::{HistoryRecord, What};
use lockkeeper_recipes::{Event, Observer};
use parking_lot::Mutex;

tokio::task_local! {
    /// The attempt that a task runs for, so that its events are recorded with it.
    static ATTEMPT: u32;
}

/// A history that is being recorded. Its clones are the same history.
#[derive(Clone)]
pub struct History {
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<Vec<HistoryRecord>>>,
}

impl History {
    /// Starts an empty history.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, records: Arc::default() }
    }

    /// Records what happened now.
    pub fn record(&self, what: What) {
        self.record_seen(|| what);
    }

    /// Looks at something and records it, with no other record between: what was seen before another task's record
    /// stands before it. The look records nothing itself.
    pub fn record_seen(&self, look: impl FnOnce() -> What) {
        let mut records = self.records.lock();
        let at = self.clock.now();
        records.push(HistoryRecord { at, what: look() });
    }

    /// Runs `asking` on behalf of an attempt, so that a keeper with this history as its observer records its joins.
    pub async fn on_behalf_of<Asking: Future>(&self, attempt: u32, asking: Asking) -> Asking::Output {
        ATTEMPT.scope(attempt, asking).await
    }

    /// Returns what was recorded so far.
    pub fn records(&self) -> Vec<HistoryRecord> {
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
