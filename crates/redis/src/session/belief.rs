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

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
    use proptest::prelude::*;

    use lockkeeper_core::clock::BootInstant;
    use lockkeeper_session::Belief;

    use super::*;

    fn at(milliseconds: u64) -> BootInstant {
        BootInstant::from_nanos(milliseconds * 1_000_000)
    }

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

    const TIMEOUT_MS: u64 = 6_000;

    /// A model of the service's clock, in milliseconds.
    struct Service {
        vt_ms: u64,
        seen_ms: u64,
        ends_ms: u64,
        guard_ms: u64,
    }

    impl Service {
        fn call(&mut self, server_ms: u64) {
            self.vt_ms += server_ms.saturating_sub(self.seen_ms).min(self.guard_ms);
            self.seen_ms = server_ms;
        }

        fn is_alive(&self) -> bool {
            self.vt_ms < self.ends_ms
        }
    }

    proptest! {
        /// The session stands while it is believed, in any order of calls, and also if the server's clock jumps once.
        #[test]
        fn no_session_is_ended_while_it_is_believed(
            events in proptest::collection::vec((0..4_u8, 0..1_500_u64), 0..60),
            (jumps_at, jump_ms) in (0..60_usize, 0..10_000_000_u64),
        ) {
            let timing = of_seconds(TIMEOUT_MS / 1_000);
            let guard_ms = u64::try_from(timing.guard().as_millis()).unwrap();
            let mut service = Service { vt_ms: 0, seen_ms: 0, ends_ms: TIMEOUT_MS, guard_ms };
            let mut belief = Belief::until(at(0).saturating_add(timing.belief()));
            let (mut now_ms, mut ahead_ms, mut sent_ms) = (0, 0, None);
            for (number, (kind, later_ms)) in events.into_iter().enumerate() {
                now_ms += later_ms;
                if number == jumps_at {
                    ahead_ms = jump_ms;
                }
                match kind {
                    // A renewal is sent; it reaches the server, and the answer comes, later.
                    0 => sent_ms = sent_ms.or(Some((now_ms, false))),
                    1 => if let Some((_, has_arrived)) = sent_ms.as_mut().filter(|(_, has_arrived)| !has_arrived) {
                        service.call(now_ms + ahead_ms);
                        if service.is_alive() {
                            service.ends_ms = service.vt_ms + TIMEOUT_MS;
                            *has_arrived = true;
                        }
                    },
                    2 => if let Some((sent_ms, _)) = sent_ms.take_if(|(_, has_arrived)| *has_arrived) {
                        belief.prove(at(sent_ms), timing.belief());
                    },
                    _ => service.call(now_ms + ahead_ms),
                }
                prop_assert!(service.is_alive() || at(now_ms) >= belief.safe_until(), "at {now_ms} ms");
            }
        }
    }
}
