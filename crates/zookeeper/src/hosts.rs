//! The time that one way to a server may take. Which way is tried next, the ways of `lockkeeper-session` decide.

use std::time::Duration;

pub(crate) use lockkeeper_session::{DialHistory, Random, pause_after};

use crate::config::Config;

/// The least time one way gets, however many there are.
const SHARE_MIN: Duration = Duration::from_millis(500);

/// A connection, and a handshake, take at most this part of the session timeout, so that a live session survives a
/// silent server.
const SESSION_DIVISOR: u32 = 3;

/// How long one way may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    connect_timeout: Duration,
    session_timeout: Duration,
}

impl Share {
    pub(crate) const fn new(config: &Config) -> Self {
        Self { connect_timeout: config.connect_timeout, session_timeout: config.session_timeout }
    }

    /// Returns how long a connection, or the resolving of a name, may take for this number of ways.
    pub(crate) fn dial_max(self, ways: usize) -> Duration {
        share(self.connect_timeout.min(self.session_timeout / SESSION_DIVISOR), ways)
    }

    /// Returns how long a server may take to answer the handshake for this number of ways.
    pub(crate) fn handshake_max(self, ways: usize) -> Duration {
        let longest = (self.session_timeout / SESSION_DIVISOR).max(SHARE_MIN);
        share(self.connect_timeout.min(self.session_timeout), ways).min(longest)
    }
}

fn share(whole: Duration, ways: usize) -> Duration {
    let ways = u128::try_from(ways).unwrap_or(u128::MAX).max(1);
    // In whole milliseconds, as errors show it.
    Duration::from_millis(u64::try_from(whole.as_millis() / ways).unwrap_or(u64::MAX)).max(SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_time_follow_the_number_of_ways_and_leave_a_session_time_to_live() {
        let share = |url: &str| Share::new(&Config::from_url(&url.parse().unwrap()).unwrap());
        let millis = Duration::from_millis;
        let usual = share("zk://h1");
        assert_eq!((usual.dial_max(1), usual.dial_max(4)), (millis(6_666), millis(1_666)));
        assert_eq!((usual.handshake_max(1), usual.handshake_max(4)), (Duration::from_secs(20) / 3, millis(2_500)));
        let hasty = share("zk://h1?connect_timeout=3s");
        assert_eq!((hasty.dial_max(3), hasty.handshake_max(3)), (millis(1_000), millis(1_000)));
        assert_eq!((hasty.dial_max(64), hasty.handshake_max(64)), (SHARE_MIN, SHARE_MIN));
    }
}
