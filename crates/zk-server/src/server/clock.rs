//! The one place where the server reads clocks.

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
