//! Rules of a session's time: until when it may be believed, and the beat by which others know it. Pure.
//!
//! Only a beat proves that a session lives, and so do its opening and its resuming, which store one. Others remove a
//! session after they have seen the same beat for its whole timeout. They cannot have seen a beat before it was sent;
//! so it is believed for its timeout from that moment on, less a margin.

use std::time::Duration;

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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
