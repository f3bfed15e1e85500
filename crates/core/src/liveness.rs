//! The belief in a session or a place: until when, and why it ended.

use std::fmt;
use std::time::Duration;

use crate::clock::BootInstant;

/// Until when a hold may be believed.
///
/// In the guide: [losing a lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/losing_a_lock/index.html).
///
/// In the guide: [losing a lock](https://docs.rs/lockkeeper/latest/lockkeeper/guide/losing_a_lock/index.html).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a deadline is there or not")]
pub enum SafeUntil {
    /// Until this moment, unless it is renewed earlier.
    At(BootInstant),
    /// While this process lives: the service has no timeouts.
    ProcessEnd,
}

impl SafeUntil {
    /// Returns how long from `now` it may be believed; `None` if there is no deadline.
    pub fn left(self, now: BootInstant) -> Option<Duration> {
        match self {
            Self::At(deadline) => Some(deadline.saturating_duration_since(now)),
            Self::ProcessEnd => None,
        }
    }

    const NO_DEADLINE: u64 = u64::MAX;

    pub(crate) fn to_nanos(self) -> u64 {
        match self {
            Self::At(deadline) => deadline.as_nanos().min(Self::NO_DEADLINE - 1),
            Self::ProcessEnd => Self::NO_DEADLINE,
        }
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        if nanos == Self::NO_DEADLINE { Self::ProcessEnd } else { Self::At(BootInstant::from_nanos(nanos)) }
    }
}

/// What may be believed of a session, or of a place held by it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a holder handles every one")]
pub enum Liveness {
    /// It stands, and the connection to the service is open.
    Held {
        /// Until when, if no further reply arrives.
        safe_until: SafeUntil,
    },
    /// It stands, but the connection to the service is broken; it is lost at `safe_until` unless the connection opens
    /// again before.
    Jeopardy {
        /// Until when.
        safe_until: SafeUntil,
    },
    /// It is lost and never comes back.
    Lost(LossReason),
}

impl Liveness {
    /// Tells whether it stands.
    pub const fn is_held(self) -> bool {
        !matches!(self, Self::Lost(_))
    }

    /// Returns until when it may be believed, or `None` if it is lost.
    pub const fn safe_until(self) -> Option<SafeUntil> {
        match self {
            Self::Held { safe_until } | Self::Jeopardy { safe_until } => Some(safe_until),
            Self::Lost(_) => None,
        }
    }
}

/// Why a hold or a session was lost; final.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LossReason {
    /// An operator broke the lock: another client may hold it now.
    Broken,
    /// This process closed the session.
    Closed,
    /// Our queue was removed or replaced with all of its contenders, or the service has lost some. A waiter takes a
    /// place in the queue that has the name now.
    Displaced,
    /// The service ended the session.
    Expired,
    /// The time until which the session was proven alive ran out; another client may hold the lock now.
    Lapsed,
    /// It had lasted as long as its `max_hold` allows.
    MaxHold,
    /// Its guard gave the lock back.
    Released,
    /// Our contender was removed from the queue.
    Removed,
}

impl LossReason {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 8] = [
        Self::Broken,
        Self::Closed,
        Self::Displaced,
        Self::Expired,
        Self::Lapsed,
        Self::MaxHold,
        Self::Released,
        Self::Removed,
    ];

    /// Returns its name, as metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Closed => "closed",
            Self::Displaced => "displaced",
            Self::Expired => "expired",
            Self::Lapsed => "lapsed",
            Self::MaxHold => "max_hold",
            Self::Released => "released",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Broken => "an operator broke the lock",
            Self::Closed => "the session was closed",
            Self::Displaced => "its queue was removed, or the service has lost it",
            Self::Expired => "the service ended the session",
            Self::Lapsed => "the session could not be proven alive in time",
            Self::MaxHold => "its time limit was reached",
            Self::Released => "its guard gave it back",
            Self::Removed => "its contender was removed from the queue",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reasons_are_listed() {
        // A new reason does not compile here, and its place is another one than its number until it is listed.
        let place = |reason: LossReason| match reason {
            LossReason::Broken => 0,
            LossReason::Closed => 1,
            LossReason::Displaced => 2,
            LossReason::Expired => 3,
            LossReason::Lapsed => 4,
            LossReason::MaxHold => 5,
            LossReason::Released => 6,
            LossReason::Removed => 7,
        };
        let listed = LossReason::ALL.map(place);
        assert!(listed.into_iter().eq(0..LossReason::ALL.len()), "{listed:?}");
        assert!(LossReason::ALL.iter().all(|&reason| reason as usize == place(reason)));
    }
}
