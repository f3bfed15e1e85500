//! Remnants of users on a service, as [`AdminBackend::remnants`](crate::AdminBackend::remnants) finds them for an
//! operator.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::name::QueueName;

/// How long a queue must have been empty to count as one that no client uses: no client takes as long to enter a queue
/// that it has made.
pub const UNUSED_FOR: Duration = Duration::from_secs(10 * 60);

/// What a [`Remnant`] is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum RemnantKind {
    /// A contender whose process or session has ended for certain. The service would remove it some time.
    Dead,
    /// A queue without contenders and without a value, which no client has used for a while.
    Empty,
    /// A contender that depends on no session and says no reason why it stands, as frozen locks do: it blocks until
    /// it is removed, and nothing tells whether its owner is still there.
    Unbound,
}

impl RemnantKind {
    /// Returns its name, as it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Empty => "empty",
            Self::Unbound => "unbound",
        }
    }
}

impl fmt::Display for RemnantKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Something at a service that no client seems to use any more, in the state in which it was seen.
///
/// ```
/// use lockkeeper::{Remnant, RemnantKind};
///
/// let remnant = Remnant::new(RemnantKind::Empty, "/lockkeeper/old", 7_u64);
/// assert_eq!((remnant.seen::<u64>(), remnant.seen::<String>()), (Some(&7), None));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Remnant {
    /// What it is.
    pub kind: RemnantKind,
    /// The lock that it belongs to, if its name is known.
    pub lock: Option<QueueName>,
    /// Where it lies, in the service's own words: a node, a file, a key. It may be any text.
    pub place: String,
    seen: Arc<dyn Any + Send + Sync>,
}

impl Remnant {
    /// Describes what a backend has found. `seen` is the state in which it saw it, in the backend's own type.
    pub fn new(kind: RemnantKind, place: impl Into<String>, seen: impl Any + Send + Sync) -> Self {
        Self { kind, lock: None, place: place.into(), seen: Arc::new(seen) }
    }

    /// Names the lock that it belongs to.
    #[must_use]
    pub fn of_lock(mut self, lock: Option<QueueName>) -> Self {
        self.lock = lock;
        self
    }

    /// Returns the state in which it was seen, to the backend that made it; `None` if another one did.
    pub fn seen<Seen: Any>(&self) -> Option<&Seen> {
        self.seen.downcast_ref()
    }
}

impl fmt::Debug for Remnant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, lock, place, seen: _ } = self;
        formatter
            .debug_struct("Remnant")
            .field("kind", kind)
            .field("lock", lock)
            .field("place", place)
            .finish_non_exhaustive()
    }
}
