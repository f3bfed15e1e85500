//! The promises of a service, as data: for users, for the recipes to refuse what it does not carry, and for the
//! conformance suite to choose its cases.

use std::fmt;

use crate::modes::Modes;

/// What keeps two holders apart.
///
/// In the guide: [what each service promises](https://docs.rs/lockkeeper/latest/lockkeeper/guide/choosing/index.html).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Exclusion {
    /// Contenders of one process exclude one another.
    Process,
    /// Contenders of one machine exclude one another while their processes live; there are no timeouts.
    Machine,
    /// Contenders of all machines exclude one another while the stated time bounds hold.
    Timed,
    /// Contenders usually exclude one another; the service can grant twice.
    BestEffort,
}

impl fmt::Display for Exclusion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Process => "within one process",
            Self::Machine => "on one machine, for as long as the process lives",
            Self::Timed => "on all machines, within stated time bounds",
            Self::BestEffort => "best effort",
        })
    }
}

/// How long the tokens of a queue grow.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Fencing {
    /// While the process lives.
    Process,
    /// While the service keeps its data.
    Service,
    /// Also after a loss of the service's data, provided that the machine's clock is not set back.
    Clock,
}

impl fmt::Display for Fencing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Process => "tokens grow while the process lives",
            Self::Service => "tokens grow while the service keeps its data",
            Self::Clock => "tokens grow over the loss of the service's data too, unless the clock is set back",
        })
    }
}

/// What happens to a hold when its process stands still.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoppedHolder {
    /// It keeps the lock, however long it is stopped.
    Keeps,
    /// It loses the lock after the session's timeout, and its guard reports the loss when the process goes on.
    Expires,
}

impl fmt::Display for StoppedHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Keeps => "a stopped holder keeps its lock",
            Self::Expires => "a stopped holder loses its lock after the session's timeout",
        })
    }
}

/// How a waiter learns that an operator removed a contender by the service's own means.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Removal {
    /// The service tells it at once.
    Told,
    /// The process whose contender it was notices it when it looks, and so lets the next one in.
    Noticed,
}

impl fmt::Display for Removal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Told => "waiters are told at once of a contender that an operator removed",
            Self::Noticed => "waiters learn of a contender that an operator removed when its process looks",
        })
    }
}

/// How one who [follows](crate::AdminBackend::follow) all locks learns of their changes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Following {
    /// It cannot be followed: an onlooker looks again and again.
    #[default]
    None,
    /// The backend looks at all locks again and again, and tells what has changed and how old that is.
    Looks,
    /// The service tells of each change.
    Told,
}

/// What a service promises.
///
/// With the feature `serde` it is serialized with the names and words of `lockkeeper capabilities`, which leave out how
/// it is followed and whether it answers at once.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's short name, as in URLs and metrics.
    pub backend: &'static str,
    /// What keeps two holders apart.
    pub exclusion: Exclusion,
    /// How long tokens grow.
    pub fencing: Fencing,
    /// What happens to the hold of a stopped process.
    pub stopped_holder: StoppedHolder,
    /// How waiters learn that an operator removed a contender.
    pub removal: Removal,
    /// How one who follows all locks learns of their changes.
    pub following: Following,
    /// The kinds of lock whose contenders its layout carries, known before the first connection. No contender of
    /// another kind is ever asked for: the recipes refuse the lock when it is made, before anything is sent
    /// ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)). Queues that only other kinds have are always empty.
    pub modes: Modes,
    /// What the exclusion rests on, a sentence each: where one is not true, two contenders may hold one lock until the
    /// first is told.
    pub conditions: &'static [&'static str],
    /// Whether a join is mostly answered by the first poll, as by a service in this process: then a caller looks for
    /// the answer before it prepares to wait for it.
    pub answers_at_once: bool,
}

impl Capabilities {
    /// States the promises of a service that carries every kind of lock and cannot be followed.
    pub const fn new(
        backend: &'static str,
        exclusion: Exclusion,
        fencing: Fencing,
        stopped_holder: StoppedHolder,
        removal: Removal,
    ) -> Self {
        Self {
            backend,
            exclusion,
            fencing,
            stopped_holder,
            removal,
            following: Following::None,
            modes: Modes::ALL,
            conditions: &[],
            answers_at_once: false,
        }
    }

    /// States that a join is mostly answered by the first poll.
    #[must_use]
    pub const fn answering_at_once(mut self) -> Self {
        self.answers_at_once = true;
        self
    }

    /// States that its locks can be followed, and how.
    #[must_use]
    pub const fn followed(mut self, following: Following) -> Self {
        self.following = following;
        self
    }

    /// Limits the service to these kinds of lock, as where its layout is shared with other clients that have no others.
    ///
    /// ```
    /// use lockkeeper::{Capabilities, Exclusion, Fencing, Mode, Modes, Removal, StoppedHolder};
    ///
    /// const CAPABILITIES: Capabilities =
    ///     Capabilities::new("shared", Exclusion::Timed, Fencing::Service, StoppedHolder::Expires, Removal::Told)
    ///         .carrying(Modes::MUTEX.with(Modes::ELECTION));
    /// assert!(!CAPABILITIES.modes.has(Mode::Permit));
    /// ```
    #[must_use]
    pub const fn carrying(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// States what the exclusion rests on.
    #[must_use]
    pub const fn on_condition(mut self, conditions: &'static [&'static str]) -> Self {
        self.conditions = conditions;
        self
    }
}
