//! The worth of a proof of a session: for how long it lets the session be believed, and how early a holder is warned.

use std::time::Duration;

use super::session::Link;

/// By how much a proof is worth less than the timeout, besides its own bounds: this part of the timeout, for the time
/// between two pings and as much again for the way.
const WORTH_DIVISOR: u32 = 5;

/// A holder proves its session once in this part of the timeout …
const HOLDING_DIVISOR: u32 = 6;

/// … but at least this often, since an old proof is of little use to a caller that asks how long it still holds.
const HOLDING_INTERVAL_MAX: Duration = Duration::from_secs(3);

/// How long after a proof a holder sends the next one at the latest.
pub(crate) fn holding_interval(timeout: Duration) -> Duration {
    (timeout / HOLDING_DIVISOR).min(HOLDING_INTERVAL_MAX)
}

impl Link {
    /// Returns for how long the session should be believed at least when a lock is granted: half of its timeout, or
    /// what a proof is worth if that is less.
    pub(crate) fn worth_granting(&self) -> Duration {
        self.worth_of_proof().min(self.timeout() / 2)
    }

    /// Returns for how long a proof lets the session be believed at least, from the moment at which it was sent.
    pub(crate) fn worth_of_proof(&self) -> Duration {
        self.worth_under(self.timeout())
    }

    fn worth_under(&self, timeout: Duration) -> Duration {
        let paid = self.anchor.span(timeout) + self.anchor.margin(timeout) + timeout / WORTH_DIVISOR;
        timeout.saturating_sub(paid)
    }

    /// Returns how long before its deadline a holder certainly learns that proofs fail. At worst, what a proof is worth
    /// is used up by the time until the next one.
    pub(super) fn notice_under(&self, timeout: Duration) -> Duration {
        self.worth_under(timeout).saturating_sub(holding_interval(timeout))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::clock::SystemClock;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_holder_is_warned_earlier_the_longer_its_session_and_the_shorter_its_tick() {
        // Of the timeout: tick/2 + 100 ms, 100 ms + T/50, T/5, and the time to the next proof.
        for (settings, notice_ms) in [
            ("session_timeout=20s&tick=2s", 20_000 - 1_100 - 500 - 4_000 - 3_000),
            ("session_timeout=20s", 20_000 - 5_100 - 500 - 4_000 - 3_000),
            ("session_timeout=60s&tick=2s", 60_000 - 1_100 - 1_300 - 12_000 - 3_000),
            ("session_timeout=6s&tick=2s", 6_000 - 1_100 - 220 - 1_200 - 1_000),
            ("session_timeout=3s&tick=4s", 0),
        ] {
            let config = Config::from_url(&format!("zk://h?{settings}").parse().unwrap()).unwrap();
            let link = Link::new(&config, Arc::new(SystemClock));
            assert_eq!(link.notice_under(link.timeout()), Duration::from_millis(notice_ms), "{settings}");
        }
    }
}
