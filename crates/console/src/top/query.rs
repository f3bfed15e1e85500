//! The selection and the order of the listed locks.

use std::cmp::Reverse;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::{KnownLock, LockModel, TimePoint};

use super::contender::name;
use crate::output::known::{longest_hold, oldest_wait};

/// How many locks are listed, the first ones in the order that is asked for: many screens, and little work for each
/// of the pictures a second. A filter finds the others.
pub(super) const LISTED_MAX: usize = 500;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Query {
    pub(super) sort: Sort,
    /// A part of a name, host or program; empty for all.
    pub(super) filter: String,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Sort {
    /// The lock with the most waiters, then the one whose oldest waiter has waited longest.
    #[default]
    Waiters,
    OldestWait,
    Held,
    Name,
}

#[derive(Debug)]
pub(super) struct QueryMatches<'a> {
    pub(super) locks: Vec<(&'a QueueName, &'a KnownLock)>,
    /// How many there are that the filter asks for.
    pub(super) total: usize,
}

impl Sort {
    /// Returns the next one, and after the last one the first.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Waiters => Self::OldestWait,
            Self::OldestWait => Self::Held,
            Self::Held => Self::Name,
            Self::Name => Self::Waiters,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::OldestWait => "oldest wait",
            Self::Held => "held",
            Self::Name => "name",
        }
    }

    /// What comes first has the greatest.
    fn key(self, lock: &KnownLock, now: TimePoint) -> (usize, Duration) {
        let oldest = || oldest_wait(lock, now).unwrap_or_default();
        let held = || longest_hold(lock, now).unwrap_or_default().0;
        match self {
            // Among locks without waiters, the one that is held longest.
            Self::Waiters => (lock.waiters().count(), if lock.waiters().next().is_some() { oldest() } else { held() }),
            Self::OldestWait => (0, oldest()),
            Self::Held => (0, held()),
            Self::Name => (0, Duration::ZERO),
        }
    }
}

impl Query {
    pub(super) fn choose<'a>(&self, model: &'a LockModel, now: TimePoint) -> QueryMatches<'a> {
        let sought = self.filter.trim().to_lowercase();
        let asked_for = model.locks().iter().filter(|(name, lock)| sought.is_empty() || mentions(name, lock, &sought));
        let mut found: Vec<_> = asked_for.map(|(name, lock)| (Reverse(self.sort.key(lock, now)), name, lock)).collect();
        let total = found.len();
        found.sort_by_key(|&(key, name, _)| (key, name));
        let locks = found.into_iter().take(LISTED_MAX).map(|(_, name, lock)| (name, lock)).collect();
        QueryMatches { locks, total }
    }

    pub(super) fn finds(&self, name: &QueueName, lock: &KnownLock) -> bool {
        mentions(name, lock, &self.filter.trim().to_lowercase())
    }

    /// Tells whether a lock is asked for that nothing is known of but its name.
    pub(super) fn asks_for(&self, lock: &QueueName) -> bool {
        lock.as_str().to_lowercase().contains(&self.filter.trim().to_lowercase())
    }
}

/// Tells whether the name of a lock, or what names a contender in its queue, has this in it.
fn mentions(lock: &QueueName, known: &KnownLock, sought: &str) -> bool {
    lock.as_str().to_lowercase().contains(sought)
        || known.contenders.iter().any(|one| name(&one.info).to_lowercase().contains(sought))
}
