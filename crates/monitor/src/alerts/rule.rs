//! The rules, and their thresholds.

use std::fmt;
use std::time::Duration;

use super::findings::AlertFinding;
use crate::losses::LOSS_COUNTS_FOR;

/// How many waiters a lock may have without an alert, unless an operator says otherwise.
const WAITERS: u32 = 10;

/// How long a lock may be held while others wait, unless an operator says otherwise.
const HELD: Duration = Duration::from_secs(5 * 60);

/// How often a lock may be lost within ten minutes without an alert, and once more is one, unless an operator says
/// otherwise: two programs may be ended together.
const LOSSES: u32 = 2;

/// How long a holder that was in jeopardy before a restart, or by another monitor's word, is not seen to be before that
/// is over: half a session timeout passes before one is seen to be silent, and how long it is was not noted. Few
/// timeouts are longer than ten minutes.
const JEOPARDY_SAID_FOR: Duration = Duration::from_secs(5 * 60);

/// What is wrong with a lock or with the view of it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Rule {
    /// Contenders wait for each other.
    Deadlock,
    /// One contender holds for long while others wait.
    Held,
    /// Many contenders wait.
    Waiters,
    /// Holders have lost the lock again and again.
    Lost,
    /// A holder gives no sign of life.
    Jeopardy,
    /// The service cannot be asked.
    Unreachable,
}

/// From which numbers on a lock is worth an alert.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// More waiters than this are too many.
    pub waiters: u32,
    /// A hold for longer than this is too long.
    pub held: Duration,
    /// More losses than this within ten minutes are too many.
    pub losses: u32,
}

impl Thresholds {
    /// Sets all of them.
    pub const fn new(waiters: u32, held: Duration, losses: u32) -> Self {
        Self { waiters, held, losses }
    }

    /// An alert of too many waiters ends when no more than this many wait: four fifths, so that a number that goes up
    /// and down at the threshold is one alert.
    pub(super) const fn calm(&self) -> u32 {
        (self.waiters as u64 * 4 / 5) as u32
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::new(WAITERS, HELD, LOSSES)
    }
}

impl Rule {
    /// All rules, in the order of their weight.
    pub const ALL: [Self; 6] =
        [Self::Deadlock, Self::Held, Self::Waiters, Self::Lost, Self::Jeopardy, Self::Unreachable];

    /// Returns its name, as alerts and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::Held => "held",
            Self::Waiters => "waiters",
            Self::Lost => "lost",
            Self::Jeopardy => "jeopardy",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns how long something is wrong before it is told. What is found to hold for long or to be a deadlock has
    /// been so for long enough, as have losses in ten minutes, and a session that was silent for half its timeout.
    pub(super) const fn raised_after(self) -> Duration {
        match self {
            Self::Deadlock | Self::Held | Self::Lost | Self::Jeopardy => Duration::ZERO,
            Self::Waiters => Duration::from_secs(10),
            Self::Unreachable => Duration::from_secs(30),
        }
    }

    /// Returns how long it is not wrong any more before that is told. A deadlock is searched for some time after all
    /// locks were seen anew. What was told of a lock's losses before a restart or by another monitor is not over before
    /// none was seen for as long as each of them counts. Over a new connection to the service a session is silent only
    /// after half its timeout anew.
    pub(super) fn ended_after(self, finding: &AlertFinding) -> Duration {
        match (self, finding) {
            (Self::Lost, AlertFinding::Said(_)) => LOSS_COUNTS_FOR,
            (Self::Held | Self::Lost, _) => Duration::ZERO,
            (Self::Deadlock, _) => Duration::from_secs(2),
            (Self::Waiters, _) => Duration::from_secs(30),
            (Self::Jeopardy, AlertFinding::Jeopardy { timeout, .. }) => *timeout / 2 + Duration::from_secs(10),
            (Self::Jeopardy, _) => JEOPARDY_SAID_FOR,
            (Self::Unreachable, _) => Duration::from_secs(10),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
