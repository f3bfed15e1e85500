//! Whether the first wait of a session is far from its turn.

use lockkeeper_core::clock::BootInstant;

use crate::session::waits::handoff_rate::{self, ListenPause};
use crate::session::waits::wait_table::{Departing, Line, WaitTable};

impl WaitTable {
    /// Returns the first of the waits if all are for one queue, and it may be far from its turn, and was not counted.
    pub(in crate::session::waits) fn far(&self) -> Option<Line> {
        self.first_far().filter(|line| !self.handoff_rate.has_counted(line)).cloned()
    }

    /// The same if it was counted.
    pub(in crate::session::waits) fn counted_far(&self) -> Option<Line> {
        self.first_far().filter(|line| self.handoff_rate.has_counted(line)).cloned()
    }

    fn first_far(&self) -> Option<&Line> {
        let line = self.first()?;
        let first = self.departures.values().find(|wait| wait.line.as_ref() == Some(line))?;
        (first.nearness >= handoff_rate::FAR).then_some(line)
    }

    /// Whether there are waits, and none of them comes before this one.
    pub(in crate::session::waits) fn are_behind(&self, line: &Line) -> bool {
        self.first().is_some_and(|first| first.0 == line.0 && first.1 >= line.1)
    }

    /// The first of the waits if all are for one queue.
    fn first(&self) -> Option<&Line> {
        let is_of_one = |line: &&Line| {
            self.departures.values().all(|wait| wait.line.as_ref().is_some_and(|other| other.0 == line.0))
        };
        let lines = self.departures.values().filter_map(|wait| wait.line.as_ref());
        lines.min_by_key(|line| line.1).filter(is_of_one).filter(|_| self.changes.is_empty())
    }

    /// Notes how many stood ahead of the first wait when that was asked; returns until when the session may rest.
    pub(in crate::session::waits) fn counted(&mut self, line: &Line, ahead: usize, at: BootInstant) -> ListenPause {
        let nearness = |wait: &Departing| (wait.line.as_ref() == Some(line)).then_some(wait.nearness);
        let seen = self.departures.values().find_map(nearness).unwrap_or(ahead);
        // At least as many departed ahead of those behind it.
        let departed = seen.saturating_sub(ahead);
        for wait in
            self.departures.values_mut().filter(|wait| wait.line.as_ref().is_some_and(|other| other.0 == line.0))
        {
            wait.nearness = wait.nearness.saturating_sub(departed);
        }
        self.handoff_rate.counted(ahead, at)
    }
}
