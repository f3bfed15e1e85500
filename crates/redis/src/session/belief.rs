//! Belief in a session, and its end: a rule of events and times, without a clock or a connection.
//!
//! The service's clock goes on with the server's, but by no more than a bound between two calls of any client: the
//! least guard of all sessions. So a jump of the server's clock moves the end of a session by no more than its own
//! guard, and belief ends earlier by that. Each answered call that renews the session counts from the moment before it
//! was sent.

use std::time::Duration;

use lockkeeper_session::SessionTiming;

/// A session renews at most this often, however little the service says that its clock goes on at once.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// By how much the service's clock may go on at once, beyond the time between two renewals: one may come so late …
const GUARD_MAX: Duration = Duration::from_secs(1);

/// … or this part of the timeout, if that is less.
const GUARD_DIVISOR: u32 = 6;

/// For what part of the timeout a session should be believed at least when a lock is granted.
const WORTH_DIVISOR: u32 = 3;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Timing {
    pub(crate) timeout: Duration,
}

impl Timing {
    /// How long after a renewal the next one is sent where the service's clock goes on by at most this at once: it must
    /// not fall behind.
    pub(crate) fn interval_under(self, guard: Duration) -> Duration {
        self.holding_interval().min((guard * 3 / 4).max(INTERVAL_MIN))
    }

    /// By how much this session lets the service's clock go on at once.
    pub(crate) fn guard(self) -> Duration {
        self.holding_interval() + (self.timeout / GUARD_DIVISOR).min(GUARD_MAX)
    }

    /// For how long a renewal is believed, from its sending.
    pub(super) fn belief(self) -> Duration {
        self.timeout.saturating_sub(self.guard() + self.margin())
    }
}

impl SessionTiming for Timing {
    const PATIENCE_DIVISOR: u32 = 5;

    fn timeout(self) -> Duration {
        self.timeout
    }

    fn worth_granting(self) -> Duration {
        self.timeout / WORTH_DIVISOR
    }

    /// At worst, the last renewal was answered at once, and the next one, an interval later, is waited for.
    fn notice(self) -> Duration {
        self.belief().saturating_sub(self.holding_interval() + self.patience())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_seconds(seconds: u64) -> Timing {
        Timing { timeout: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_session_is_believed_for_its_timeout_less_guard_and_margin() {
        assert_eq!(of_seconds(20).belief().as_millis(), 15_500);
    }

    #[test]
    fn a_holder_is_warned_before_its_deadline_at_every_timeout() {
        for seconds in [2, 3, 4, 10, 20, 300, 86_400] {
            let timing = of_seconds(seconds);
            assert!(timing.notice() > Duration::from_millis(200), "{seconds} s: {:?}", timing.notice());
            let after_renewal = timing.belief().saturating_sub(timing.holding_interval());
            assert!(after_renewal > timing.worth_granting(), "{seconds} s: a grant would wait for a renewal");
        }
    }

    #[test]
    fn sessions_of_others_make_one_renew_more_often_and_never_less() {
        let timing = of_seconds(20);
        assert_eq!(timing.interval_under(of_seconds(2).guard()).as_millis(), 499);
        assert_eq!(timing.interval_under(of_seconds(300).guard()), timing.holding_interval());
        assert_eq!(timing.interval_under(Duration::ZERO), INTERVAL_MIN, "a service that says nothing of use");
    }
}
