//! The rules, and their thresholds.

use std::fmt;
use std::time::Duration;

/// How many waiters a lock may have without an alert, unless an operator says otherwise.
const WAITERS: u32 = 10;

/// How long a lock may be held while others wait, unless an operator says otherwise.
const HELD: Duration = Duration::from_secs(5 * 60);

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
}

impl Thresholds {
    /// Sets both.
    pub const fn new(waiters: u32, held: Duration) -> Self {
        Self { waiters, held }
    }

    /// An alert of too many waiters ends when no more than this many wait: four fifths, so that a number that goes up
    /// and down at the threshold is one alert.
    pub(super) const fn calm(&self) -> u32 {
        (self.waiters as u64 * 4 / 5) as u32
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::new(WAITERS, HELD)
    }
}

impl Rule {
    /// All rules, in the order of their weight.
    pub const ALL: [Self; 4] = [Self::Deadlock, Self::Held, Self::Waiters, Self::Unreachable];

    /// Returns its name, as alerts and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::Held => "held",
            Self::Waiters => "waiters",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns how long something is wrong before it is told. What is found to hold for long or to be a deadlock has
    /// been so for long enough.
    pub(super) const fn raised_after(self) -> Duration {
        match self {
            Self::Deadlock | Self::Held => Duration::ZERO,
            Self::Waiters => Duration::from_secs(10),
            Self::Unreachable => Duration::from_secs(30),
        }
    }

    /// Returns how long it is not wrong any more before that is told. A deadlock is searched for some time after all
    /// locks were seen anew.
    pub(super) const fn ended_after(self) -> Duration {
        match self {
            Self::Held => Duration::ZERO,
            Self::Deadlock => Duration::from_secs(2),
            Self::Waiters => Duration::from_secs(30),
            Self::Unreachable => Duration::from_secs(10),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
