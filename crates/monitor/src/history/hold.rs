//! Ends of holds, freezes, and gaps in which nothing was seen.

use std::time::Duration;

/// How the hold of a contender ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PastEnd {
    /// It goes on.
    Holds,
    /// It was given back. Most services do not say why a contender has gone, so that it may have been lost or broken.
    Left,
    /// It was given back after it was asked for.
    Asked,
    /// Its process died, or its session was ended.
    Lost,
    /// While nothing was seen.
    Unseen,
    /// It was never seen to hold: all ahead of it went at the same time, and it may have held for a moment since.
    Between,
    /// There was none: it waited in vain.
    GaveUp,
}

impl PastEnd {
    const ALL: [Self; 7] =
        [Self::Holds, Self::Left, Self::Asked, Self::Lost, Self::Unseen, Self::Between, Self::GaveUp];

    /// Returns its name, as it is shown and kept.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Left => "left",
            Self::Asked => "left when asked",
            Self::Lost => "lost",
            Self::Unseen => "unseen",
            Self::Between => "too short to see, or gave up",
            Self::GaveUp => "gave up waiting",
        }
    }

    /// Reads its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == name)
    }
}

/// A time in which nothing was seen: the monitor was not running, or the service did not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct BlindGap {
    /// When it began, in time since 1970-01-01 UTC.
    pub from_unix: Duration,
    /// When it ended.
    pub until_unix: Duration,
}

impl BlindGap {
    pub(super) const fn new(from_ms: u64, until_ms: u64) -> Self {
        Self { from_unix: Duration::from_millis(from_ms), until_unix: Duration::from_millis(until_ms) }
    }
}

/// A time in which a lock was kept from all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PastFreeze {
    /// When it began, in time since 1970-01-01 UTC; or since when it is known to have been so.
    pub from_unix: Duration,
    /// When it ended.
    pub until_unix: Duration,
}
