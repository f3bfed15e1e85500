//! One thing that happened, and when.

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;

/// One thing that happened, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryRecord {
    /// When it was recorded.
    pub at: BootInstant,
    /// What happened.
    pub what: What,
}

/// What a contender asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each way of holding needs its own rule")]
pub enum Asks {
    /// The lock, alone.
    Alone,
    /// A share of it.
    Share,
    /// This many permits of it.
    Permits(u32),
}

impl Asks {
    /// Tells whether the two may not be held at the same time. Permits exclude one another by their number alone.
    pub(crate) const fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Share, Self::Share) | (Self::Permits(_), Self::Permits(_)))
    }

    pub(crate) const fn permits(self) -> u32 {
        match self {
            Self::Permits(permits) => permits,
            Self::Alone | Self::Share => 0,
        }
    }
}

/// What happened to a contender; the number `attempt` names it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// It is about to ask for the lock, through this keeper.
    Calling {
        /// Its number; no other call has it.
        attempt: u32,
        /// The number of the keeper, and so of the session.
        keeper: u32,
        /// What it asks for.
        asks: Asks,
    },
    /// It has a place in the queue; the last one counts.
    Joined {
        /// The contender.
        attempt: u32,
    },
    /// A call of it failed in a way that may pass, and it tries again.
    Retrying {
        /// The contender.
        attempt: u32,
        /// What went wrong.
        error: String,
    },
    /// It was granted the lock.
    Granted {
        /// The contender.
        attempt: u32,
        /// The grant's token; the least of several permits'.
        token: FencingToken,
        /// Whether the guard said, when this was recorded, that it was held.
        held: bool,
    },
    /// Its guard has said that the lock is held.
    Held {
        /// The contender.
        attempt: u32,
    },
    /// It was told that the hold is lost, and does not rely on it any more.
    Lost {
        /// The contender.
        attempt: u32,
    },
    /// It is about to give back a lock that it still believes to hold.
    Releasing {
        /// The contender.
        attempt: u32,
    },
    /// It stopped asking: its time was up, or it was cancelled, or it was refused.
    GaveUp {
        /// The contender.
        attempt: u32,
    },
    /// The session of a keeper is about to be ended. From here on its holds are not relied on, and neither are new ones
    /// until the session has ended.
    Upset {
        /// The keeper.
        keeper: u32,
    },
    /// The session of a keeper was ended.
    Settled {
        /// The keeper.
        keeper: u32,
    },
    /// The process of a keeper stands still: its contenders can be told nothing.
    Stopped {
        /// The keeper.
        keeper: u32,
    },
    /// It goes on.
    GoesOn {
        /// The keeper.
        keeper: u32,
    },
    /// The service lost its data, which no service here survives without a second holder: what was granted with a token
    /// below this one is not relied on any more.
    DataLost {
        /// The first token that the service gives from here on, or one before it.
        tokens_from: FencingToken,
    },
    /// All contenders are done.
    Drained {
        /// How many are left in the queue.
        left: usize,
    },
}
