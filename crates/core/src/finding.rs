//! The findings of an examination, and the remnants of dead clients.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::capabilities::{Capabilities, Exclusion};
use crate::name::QueueName;

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Severity {
    /// It is good to know.
    Note,
    /// Locks work, but worse than they could, or not after what is likely to happen.
    Warning,
    /// Locks do not work, or not as promised.
    Error,
}

/// How closely a service is examined.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Scrutiny {
    /// Only what makes locks worse than they are promised, at the cost of a request or two: each process looks for it
    /// once.
    Brief,
    /// All that an operator may want to know. It may take seconds, open separate sessions and try what locks need.
    Full,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something about a service that its users should know, as [`AdminBackend::examine`](crate::AdminBackend::examine)
/// finds it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one sentence.
    pub what: String,
    /// What to do about it; empty if there is nothing to do.
    pub cure: String,
    /// What is left of the service's [exclusion](crate::Capabilities::exclusion) because of it, if that is less.
    pub leaves: Option<Exclusion>,
}

impl Finding {
    /// Describes a finding.
    pub fn new(severity: Severity, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { severity, what: what.into(), cure: cure.into(), leaves: None }
    }

    /// Describes what is good to know and needs no cure.
    pub fn note(what: impl Into<String>) -> Self {
        Self::new(Severity::Note, what, "")
    }

    /// Says that no more than this is left of the service's exclusion.
    #[must_use]
    pub const fn leaving(mut self, exclusion: Exclusion) -> Self {
        self.leaves = Some(exclusion);
        self
    }
}

/// `warning: the server grants a session timeout of 4s instead of 2s: set session_timeout=4s`
impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.severity, self.what)?;
        if self.cure.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.cure) }
    }
}

impl Capabilities {
    /// Returns what is left of the promises once these things were found of the service.
    ///
    /// ```
    /// use lockkeeper::{Capabilities, Exclusion, Fencing, Finding, Removal, Severity, StoppedHolder};
    ///
    /// const CAPABILITIES: Capabilities =
    ///     Capabilities::new("shared", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told);
    /// let fault = Finding::new(Severity::Warning, "the server forgets sessions", "upgrade it");
    /// assert_eq!(CAPABILITIES.weakened_by([&fault]), CAPABILITIES);
    /// let fault = fault.leaving(Exclusion::BestEffort);
    /// assert_eq!(CAPABILITIES.weakened_by([&fault]).exclusion, Exclusion::BestEffort);
    /// ```
    #[must_use]
    pub fn weakened_by<'a>(self, findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let left = findings.into_iter().filter_map(|finding| finding.leaves);
        // What excludes only now and then excludes less than anything else.
        let exclusion = left.fold(self.exclusion, |least, left| match least {
            Exclusion::BestEffort => least,
            _ => left,
        });
        Self { exclusion, ..self }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_cure_if_it_has_one() {
        let warning = Finding::new(Severity::Warning, "the tick is unknown", "set tick=2s");
        assert_eq!(warning.to_string(), "warning: the tick is unknown: set tick=2s");
        assert_eq!(Finding::note("one server").to_string(), "note: one server");
    }
}
