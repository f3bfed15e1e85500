//! Why a hold or a session ended.

use std::fmt;

/// Why a hold or a session was lost; final.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum LossReason {
    /// An operator broke the lock: another client may hold it now.
    Broken,
    /// This process closed the session.
    Closed,
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

impl fmt::Display for LossReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Broken => "an operator broke the lock",
            Self::Closed => "the session was closed",
            Self::Expired => "the service ended the session",
            Self::Lapsed => "the session could not be proven alive in time",
            Self::MaxHold => "its time limit was reached",
            Self::Released => "its guard gave it back",
            Self::Removed => "its contender was removed from the queue",
        })
    }
}
