//! Rules of a session's time that all services share. Pure.
//!
//! For how long a proof is believed, and what a service adds to these rules, its backend knows.

use std::time::Duration;

/// A session that holds proves itself once in this part of the timeout; also one that waits, where a proof looks after
/// the sessions of others …
const HOLDING_DIVISOR: u32 = 6;

/// … but at least this often, since an old proof is of little use to a caller that asks how long it still holds.
const HOLDING_INTERVAL_MAX: Duration = Duration::from_secs(3);

/// A proof that was turned away is tried again after this part of that time.
const AGAIN_DIVISOR: u32 = 4;

/// Any other proves itself once in this part of the timeout. So late, at most, others see a sign of it for the first
/// time: a dead session goes a quarter of its timeout after that timeout.
const IDLE_DIVISOR: u32 = 4;

/// How much earlier than the session the belief ends: this much, for clocks that are read in milliseconds and looked at
/// now and then …
const MARGIN: Duration = Duration::from_millis(100);

/// … and this part of the timeout, for clocks that run at different speeds.
const MARGIN_DIVISOR: u32 = 50;

/// No connection is given up sooner than this, since a busy machine answers late.
const PATIENCE_MIN: Duration = Duration::from_millis(500);

/// How long after a proof the next one is sent, while the session holds.
#[must_use]
pub fn holding_interval(timeout: Duration) -> Duration {
    (timeout / HOLDING_DIVISOR).min(HOLDING_INTERVAL_MAX)
}

/// What follows from a session's timeout on one service.
pub trait SessionTiming: Copy {
    /// A proof that is not answered within this part of the timeout shows that the connection is of no use.
    const PATIENCE_DIVISOR: u32;

    /// The timeout.
    fn timeout(self) -> Duration;

    /// For how long the session should be believed at least when a lock is granted.
    fn worth_granting(self) -> Duration;

    /// How long before its deadline a holder certainly learns that proofs fail.
    fn notice(self) -> Duration;

    /// How long after a proof the next one is sent, while the session holds; also while it waits, where a proof looks
    /// after the sessions of others.
    fn holding_interval(self) -> Duration {
        holding_interval(self.timeout())
    }

    /// How long after a proof for which the server had no time it is sent again.
    fn again_interval(self) -> Duration {
        self.holding_interval() / AGAIN_DIVISOR
    }

    /// How long after a proof the next one is sent otherwise.
    fn idle_interval(self) -> Duration {
        self.timeout() / IDLE_DIVISOR
    }

    /// By how much belief ends early.
    fn margin(self) -> Duration {
        MARGIN + self.timeout() / MARGIN_DIVISOR
    }

    /// How long a proof may take before the connection is given up.
    fn patience(self) -> Duration {
        self.part_for(Self::PATIENCE_DIVISOR)
    }

    /// This part of the timeout, if a busy machine can answer within it.
    fn part_for(self, divisor: u32) -> Duration {
        (self.timeout() / divisor).max(PATIENCE_MIN)
    }
}
