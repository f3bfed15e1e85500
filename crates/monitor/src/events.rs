//! Events of locks: what has happened to a contender, as two states of its lock tell it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{ContenderInfo, QueueName};

/// Something that has happened to a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenEvent {
    /// Its number: each is one more than the one before.
    pub number: u64,
    /// When it was seen, by the clock of the monitor, in time since 1970-01-01 UTC.
    pub at_unix: Duration,
    /// The lock.
    pub lock: QueueName,
    /// What has happened.
    pub kind: LockEventKind,
    /// The contender that it has happened to.
    pub contender: Arc<ContenderInfo>,
}

/// What has happened to a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockEventKind {
    /// It has joined and waits.
    Joined,
    /// It holds from now on. It may never have been seen to wait.
    Granted,
    /// It was asked to give up.
    Asked,
    /// It has left. Most services do not say why, so that it may have been lost or removed.
    Left,
    /// It has not left by itself: its process has died, or its session was ended.
    Lost,
    /// It freezes the lock.
    Frozen,
    /// It freezes the lock no longer.
    Thawed,
}

impl LockEventKind {
    /// Returns its name, as it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Granted => "granted",
            Self::Asked => "asked",
            Self::Left => "left",
            Self::Lost => "lost",
            Self::Frozen => "frozen",
            Self::Thawed => "thawed",
        }
    }
}

/// What has happened to a contender that is gone.
pub(crate) const fn ending(info: &ContenderInfo, is_lost: bool) -> LockEventKind {
    match (&info.frozen, is_lost) {
        (Some(_), _) => LockEventKind::Thawed,
        (None, true) => LockEventKind::Lost,
        (None, false) => LockEventKind::Left,
    }
}

/// What the history keeps of an event beside holds.
pub(crate) fn marked(kind: LockEventKind, contender: &ContenderInfo) -> Option<String> {
    let why = match kind {
        LockEventKind::Asked => contender.revocation.as_ref().and_then(|revocation| revocation.why.as_deref()),
        LockEventKind::Frozen => contender.frozen.as_deref(),
        LockEventKind::Thawed => None,
        _ => return None,
    };
    Some(why.map_or_else(|| kind.as_str().to_owned(), |why| format!("{}: {why}", kind.as_str())))
}

/// What has happened to a contender between two states of it; `old` says too whether it held.
pub(crate) fn events(
    old: Option<(&ContenderInfo, bool)>,
    info: &ContenderInfo,
    holds: bool,
) -> impl Iterator<Item = LockEventKind> {
    let is_new = old.is_none();
    let held = old.is_some_and(|(_, held)| held);
    let is_asked = info.revocation.is_some() && old.is_none_or(|(old, _)| old.revocation != info.revocation);
    let of_frozen = [(LockEventKind::Frozen, is_new)];
    let of_others = [
        (LockEventKind::Joined, is_new && !holds),
        (LockEventKind::Granted, holds && !held),
        (LockEventKind::Asked, is_asked),
    ];
    let (of_frozen, of_others) = match info.frozen {
        Some(_) => (Some(of_frozen), None),
        None => (None, Some(of_others)),
    };
    let happened = of_frozen.into_iter().flatten().chain(of_others.into_iter().flatten());
    happened.filter_map(|(kind, is_so)| is_so.then_some(kind))
}
