//! A join for a local queue that is under way, which outlives the task that began it while others wait.

use std::fmt;

use lockkeeper_core::QueueView;

use crate::contend::{Joined, Sent};

/// A join that outlives the task that began it, while others wait.
pub(super) enum Pending {
    /// It was sent, and is not answered yet.
    Sent(Sent),
    /// It is in the queue.
    Joined(Placed),
}

/// A place that waits for its turn.
pub(super) struct Placed {
    pub(super) joined: Joined,
    /// The queue at the join, if no other contender was in it.
    pub(super) alone: Option<QueueView>,
}

impl Pending {
    /// Whether it has a place in the queue for certain.
    pub(super) const fn is_placed(&self) -> bool {
        matches!(self, Self::Joined(_))
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_placed() { "Joined" } else { "Sent" })
    }
}
