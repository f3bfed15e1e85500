//! Rules of a session's time: until when it may be believed, and the beat by which others know it. Pure.
//!
//! Only a beat proves that a session lives, and so do its opening and its resuming, which store one. Others remove a
//! session after they have seen the same beat for its whole timeout. They cannot have seen a beat before it was sent;
//! so it is believed for its timeout from that moment on, less a margin.

use std::time::Duration;

use lockkeeper_core::FencingToken;
use lockkeeper_session::SessionTiming;

use crate::statement::{AnswerRow, RowKind, SessionNumber};

/// The greatest timeout of sessions unless `setup` says another: for so long no lock is granted after a loss of data.
pub(crate) const SESSION_TIMEOUT_MAX_DEFAULT: Duration = Duration::from_secs(60);

/// For how long no lock is granted after a start that seems to have lost nothing. A client that has lost its connection
/// tries to connect at the longest pause of [`Backoff::CONNECTING`](lockkeeper_core::Backoff::CONNECTING).
pub(crate) const BRIEF: Duration = Duration::from_secs(5);

/// For what part of the timeout a session should be believed at least when a lock is granted.
const WORTH_DIVISOR: u32 = 2;

/// What follows from a session's timeout.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Timing {
    pub(crate) timeout: Duration,
}

impl Timing {
    /// For how long a beat is believed, from its sending.
    pub(crate) fn belief(self) -> Duration {
        self.timeout.saturating_sub(self.margin())
    }

    /// For how long others must see the same beat before they remove the session.
    pub(crate) fn doubt(self) -> Duration {
        self.timeout + self.margin()
    }
}

impl SessionTiming for Timing {
    const PATIENCE_DIVISOR: u32 = 6;

    fn timeout(self) -> Duration {
        self.timeout
    }

    fn worth_granting(self) -> Duration {
        self.timeout / WORTH_DIVISOR
    }

    /// At worst a holder was granted a lock just before a beat that was due at an idle session's pace, and waits for
    /// that one's answer.
    fn notice(self) -> Duration {
        self.belief().saturating_sub(self.idle_interval() + self.patience())
    }
}

/// A session as an answer shows it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct SessionBeat {
    pub(crate) session: SessionNumber,
    pub(crate) epoch: i64,
    pub(crate) beat: i64,
    pub(crate) timing: Timing,
}

impl SessionBeat {
    /// Reads a row; `None` if it shows no session, or none that makes sense.
    pub(crate) fn read(row: &AnswerRow) -> Option<Self> {
        let timeout_ms = u64::try_from(row.timeout_ms?).ok().filter(|_| row.says(RowKind::Beat))?;
        let timing = Timing { timeout: Duration::from_millis(timeout_ms) };
        Some(Self { session: SessionNumber(row.session?), epoch: row.epoch?, beat: row.number?, timing })
    }

    /// Whether the beat's number is a recent time. That is a hint, since clocks may be wrong, and the first beat of a
    /// session has none.
    pub(crate) fn is_recent(&self, now_unix: Duration) -> bool {
        u64::try_from(self.beat).is_ok_and(|ms| is_near(Duration::from_millis(ms), now_unix, self.timing.doubt()))
    }
}

/// The number of the beat that follows one: the time, in milliseconds since 1970, or just more than the one before.
pub(crate) fn beat_after(last: i64, now_unix: Duration) -> i64 {
    i64::try_from(now_unix.as_millis()).unwrap_or(i64::MAX).max(last.saturating_add(1))
}

/// The upper bits of a token are milliseconds since 1970, by the server's clock.
const TOKEN_TIME_SHIFT: u32 = 20;

/// Whether a contender joined lately. That is a hint, since clocks may be wrong.
pub(crate) fn joined_lately(token: FencingToken, now_unix: Duration, timing: Timing) -> bool {
    is_near(Duration::from_millis(token.as_u64() >> TOKEN_TIME_SHIFT), now_unix, timing.doubt())
}

fn is_near(one: Duration, other: Duration, distance: Duration) -> bool {
    one.abs_diff(other) < distance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_seconds(seconds: u64) -> Timing {
        Timing { timeout: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_session_is_believed_for_its_timeout_less_the_margin() {
        assert_eq!(of_seconds(20).belief().as_millis(), 19_500);
    }

    #[test]
    fn a_beat_is_the_time_and_greater_than_the_one_before_also_if_the_clock_is_set_back() {
        let now = Duration::from_secs(1_750_000_000);
        assert_eq!(beat_after(1, now), 1_750_000_000_000);
        assert_eq!(beat_after(1_750_000_000_000, now), 1_750_000_000_001);
        assert_eq!(beat_after(1_750_000_000_001, Duration::ZERO), 1_750_000_000_002);
    }

    #[test]
    fn a_sign_of_life_is_near_in_time_and_one_from_a_clock_that_is_far_ahead_is_none() {
        let (timing, now) = (of_seconds(10), Duration::from_secs(1_750_000_000));
        let beat = |ms: i64| SessionBeat { session: SessionNumber(1), epoch: 1, beat: ms, timing };
        let recent = |ms: i64| beat(1_750_000_000_000 + ms).is_recent(now);
        assert!(recent(0) && recent(-10_200) && recent(10_200));
        assert!(!recent(-10_400) && !recent(10_400));
        assert!(!beat(1).is_recent(now) && !beat(-1).is_recent(now), "a number that is no time");
        let joined = |ms: u64| FencingToken::new(ms << 20 | 7, 0).expect("a token");
        assert!(joined_lately(joined(1_750_000_000_000 - 10_200), now, timing));
        assert!(!joined_lately(joined(1_750_000_000_000 - 10_400), now, timing));
    }

    #[test]
    fn a_holder_is_warned_before_its_deadline_at_every_timeout() {
        for seconds in [2, 3, 4, 10, 20, 300, 600] {
            let timing = of_seconds(seconds);
            assert!(timing.notice() > Duration::from_millis(800), "{seconds} s: {:?}", timing.notice());
            let before_a_beat = timing.belief().saturating_sub(timing.idle_interval());
            assert!(before_a_beat > timing.worth_granting(), "{seconds} s: a grant would wait for a beat");
            assert!(timing.holding_interval() <= timing.idle_interval(), "{seconds} s");
        }
    }
}
