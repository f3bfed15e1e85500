//! A lock and its contenders as they are known: since when each is there, and since when it was seen to hold. Pure.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderInfo, Mode};

use crate::history::{Departed, PastEnd};
use crate::moment::TimePoint;

/// Whether a contender that has gone has had its turn meanwhile, for all that is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VanishedTurn {
    /// All ahead of it have gone too.
    First,
    Behind,
}

/// One lock, as it is known.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KnownLock {
    /// Its contenders, first contender first.
    pub contenders: Vec<KnownContender>,
    /// How many permits it has if it is a semaphore whose users have agreed on a number; `None` if that is not known.
    pub permits: Option<u32>,
    /// The number of its last change that no event tells of; 0 if there was none.
    pub(crate) quiet: u64,
}

/// One contender, as it is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownContender {
    /// What the service shows of it.
    pub info: Arc<ContenderInfo>,
    /// When it was seen first.
    pub seen: TimePoint,
    /// What is known of its hold; `None` while it waits.
    pub hold: Option<KnownHold>,
    /// When the one was seen first that has waited for it at the gate of a semaphore, if that was seen.
    pub(crate) asked: Option<BootInstant>,
    /// Whether it is about to be gone without having left.
    pub(crate) is_lost: bool,
}

/// Since when a contender holds: no service says so, unless it is a service that notes the grant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownHold {
    /// It was seen to hold at this moment, and ever since.
    seen: BootInstant,
    /// At this moment it did not hold; `None` if that was never seen.
    not_before: Option<BootInstant>,
}

impl KnownContender {
    /// Describes one that is seen now, and was known as `old`. If it holds and did not before, it has been granted that
    /// after `not_before`.
    pub(crate) fn seen(
        old: Option<Self>,
        info: Arc<ContenderInfo>,
        holds: bool,
        not_before: Option<BootInstant>,
        now: TimePoint,
    ) -> Self {
        let seen = old.as_ref().map_or(now, |old| old.seen);
        let granted = KnownHold { seen: now.boot, not_before };
        let hold = holds.then(|| old.and_then(|old| old.hold).unwrap_or(granted));
        Self { info, seen, hold, asked: None, is_lost: false }
    }

    /// Returns how long it holds at least, if it holds: since it was seen to, or since the grant where the service
    /// shows that.
    pub fn held_at_least(&self, now: TimePoint) -> Option<Duration> {
        let hold = self.hold?;
        Some(self.since_grant(now).unwrap_or_else(|| now.boot.saturating_duration_since(hold.seen)))
    }

    /// Returns how long it holds at most, if it holds and that is known: since it was seen not to, or else since it
    /// joined.
    pub fn held_at_most(&self, now: TimePoint) -> Option<Duration> {
        let hold = self.hold?;
        let joined = || self.info.since_unix.map(|since| now.unix.saturating_sub(since));
        let not_before = hold.not_before.map(|then| now.boot.saturating_duration_since(then));
        // Another machine's clock may be wrong.
        let least = now.boot.saturating_duration_since(hold.seen);
        self.since_grant(now).or_else(|| not_before.or_else(joined).map(|most| most.max(least)))
    }

    pub(crate) fn waits(&self) -> bool {
        self.hold.is_none() && self.info.frozen.is_none()
    }

    /// Describes it for the history; it was there last for sure when it was `known`.
    pub(crate) fn departed(
        &self,
        first_look: Option<BootInstant>,
        known: BootInstant,
        turn: VanishedTurn,
    ) -> Departed<'_> {
        let end = match (self.hold, self.is_lost, &self.info.revocation) {
            (None, ..) if turn == VanishedTurn::First => PastEnd::Between,
            (None, ..) => PastEnd::GaveUp,
            (_, true, _) => PastEnd::Lost,
            (_, false, Some(_)) => PastEnd::Asked,
            (_, false, None) => PastEnd::Left,
        };
        let joined = self.joined(first_look);
        Departed { info: &self.info, joined, hold: self.hold.map(|hold| (hold.seen, hold.not_before)), known, end }
    }

    /// Returns when it was seen to join, unless it was found at the first look. A permit has waited as another one.
    pub(crate) fn joined(&self, first_look: Option<BootInstant>) -> Option<BootInstant> {
        let joined = if self.info.mode == Mode::Permit { self.asked } else { Some(self.seen.boot) };
        joined.filter(|&seen| first_look != Some(seen))
    }

    /// Returns when it was seen to hold first, if it holds.
    pub(crate) fn seen_to_hold(&self) -> Option<BootInstant> {
        self.hold.map(|hold| hold.seen)
    }

    fn since_grant(&self, now: TimePoint) -> Option<Duration> {
        self.info.granted_unix.map(|granted| now.unix.saturating_sub(granted))
    }

    /// Returns how long it is here: by its own clock if it shows one, else since it was seen first.
    pub fn age(&self, now: TimePoint) -> Duration {
        let seen = now.boot.saturating_duration_since(self.seen.boot);
        self.info.since_unix.map_or(seen, |since| now.unix.saturating_sub(since).max(seen))
    }
}

impl KnownLock {
    /// Returns the holders.
    pub fn holders(&self) -> impl Iterator<Item = &KnownContender> {
        self.contenders.iter().filter(|contender| contender.hold.is_some())
    }

    /// Returns the waiters.
    pub fn waiters(&self) -> impl Iterator<Item = &KnownContender> {
        self.contenders.iter().filter(|contender| contender.waits())
    }

    /// Returns what the service shows of each.
    pub fn infos(&self) -> Vec<ContenderInfo> {
        self.contenders.iter().map(|contender| (*contender.info).clone()).collect()
    }

    /// Tells whether it is kept from all: by the first contender, since others may wait to freeze it.
    pub(crate) fn is_frozen(&self) -> bool {
        self.contenders.first().is_some_and(|first| first.info.frozen.is_some())
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contenders.iter().any(|contender| contender.hold.is_none())
    }
}
