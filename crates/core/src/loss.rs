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
    /// Our queue was removed or replaced with all of its contenders. A waiter takes a place in the queue that has the
    /// name now.
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
            Self::Displaced => "its queue was removed",
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
