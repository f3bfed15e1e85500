//! The one place where the server reads clocks, and the times at which requests were read.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper_zk_proto::time::Timestamp;
use tokio::time::Instant;

use crate::machine::ClockReading;

/// Counts from its start. Both clocks use tokio's time, so that they agree under paused time. The wall clock is read
/// once; setting it back later changes nothing here.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    started: Instant,
    wall_at_start_ms: i64,
}

impl ServerClock {
    pub(super) fn start(wall_ms: Option<i64>) -> Self {
        Self { started: Instant::now(), wall_at_start_ms: wall_ms.unwrap_or_else(system_wall_ms) }
    }

    /// What both clocks show at `instant`.
    pub(super) fn moment_at(&self, instant: Instant) -> ClockReading {
        let elapsed = instant.saturating_duration_since(self.started);
        ClockReading {
            now: Timestamp::ZERO.after(elapsed),
            wall_ms: self.wall_at_start_ms.saturating_add(millis(elapsed)),
        }
    }

    /// The same clock, but for the time it did not run.
    pub(super) fn skip(&mut self, stood_still: Duration) {
        self.started += stood_still;
        self.wall_at_start_ms = self.wall_at_start_ms.saturating_add(millis(stood_still));
    }

    /// When a point of the machine's time comes.
    pub(super) fn instant_of(&self, timestamp: Timestamp) -> Instant {
        self.started + timestamp.since(Timestamp::ZERO)
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "nodes carry the time of day; the driver is where it is read")]
fn system_wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since_epoch)
}

/// Pairs outputs with the inputs that they came of: those of one input stand together, in the order of the inputs.
#[derive(Debug, Default)]
pub(super) struct RequestTimes {
    /// How many outputs there were after an input, and when that was read.
    inputs: VecDeque<(usize, Option<Instant>)>,
    taken: usize,
}

impl RequestTimes {
    /// Notes that so many outputs wait after an input that was read then, if it came from a client.
    pub(super) fn note(&mut self, outputs: usize, read_at: Option<Instant>) {
        if self.inputs.back().map_or(0, |(last, _)| *last) < outputs {
            self.inputs.push_back((outputs, read_at));
        }
    }

    /// Takes the next output; when the request was read that it answers.
    pub(super) fn take(&mut self) -> Option<Instant> {
        while self.inputs.front().is_some_and(|(outputs, _)| *outputs <= self.taken) {
            self.inputs.pop_front();
        }
        self.taken += 1;
        self.inputs.front().and_then(|(_, read_at)| *read_at)
    }

    /// No more outputs wait.
    pub(super) fn clear(&mut self) {
        self.inputs.clear();
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_of_the_input_after_which_it_came() {
        let start = Instant::now();
        let at = |ms| Some(start + Duration::from_millis(ms));
        let mut asked = RequestTimes::default();
        asked.note(2, at(1));
        asked.note(2, at(2)); // nothing came of it
        asked.note(3, None); // a session expired
        asked.note(4, at(3));
        let times: Vec<_> = std::iter::repeat_with(|| asked.take()).take(5).collect();
        assert_eq!(times, [at(1), at(1), None, at(3), None]);
        asked.clear();
        asked.note(1, at(4));
        assert_eq!(asked.take(), at(4));
    }
}
