//! The chosen locks and their order, and the chosen row, which keeps its line while the others move.

use std::cmp::Reverse;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::{KnownLock, LockModel, TimePoint};

use super::contender::name;
use crate::output::marks::{longest_hold, oldest_wait};

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

/// A chosen line, and which part of the list is on the screen.
#[derive(Clone, Debug)]
pub(super) struct Cursor<Key> {
    chosen: Option<(Key, usize)>,
    /// The first line on the screen.
    offset: usize,
}

impl<Key> Default for Cursor<Key> {
    fn default() -> Self {
        Self { chosen: None, offset: 0 }
    }
}

impl<Key: Clone + PartialEq> Cursor<Key> {
    pub(super) fn chosen(&self) -> Option<&Key> {
        self.chosen.as_ref().map(|(key, _)| key)
    }

    pub(super) const fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn clear(&mut self) {
        self.chosen = None;
    }

    /// Chooses what is at a place of the list.
    pub(super) fn choose(&mut self, keys: &[Key], at: usize) {
        self.chosen = keys.get(at).map(|key| (key.clone(), at));
    }

    /// Moves by so many lines; chooses the first line on the screen if none was chosen.
    pub(super) fn step(&mut self, keys: &[Key], lines: isize) {
        let at = match &self.chosen {
            Some((_, at)) => at.saturating_add_signed(lines).min(keys.len().saturating_sub(1)),
            None => self.offset,
        };
        self.choose(keys, at);
    }

    /// Puts the chosen row back to where it was in a list that was sorted anew, and the others around it. `gone` makes
    /// the row of what has left the list; with none, nothing is chosen any more.
    pub(super) fn keep<Row>(
        &mut self,
        rows: &mut Vec<Row>,
        key_of: impl Fn(&Row) -> Key,
        gone: impl FnOnce(&Key) -> Option<Row>,
    ) {
        let Some((key, at)) = self.chosen.take() else { return };
        let row = match rows.iter().position(|row| key_of(row) == key) {
            Some(found) => Some(rows.remove(found)),
            None => gone(&key),
        };
        if let Some(row) = row {
            let at = at.min(rows.len());
            rows.insert(at, row);
            self.chosen = Some((key, at));
        }
    }

    /// Finds the chosen row in a list whose order is not ours to change; the rows before it may have left.
    pub(super) fn find(&mut self, keys: &[Key]) {
        let Some((key, was)) = self.chosen.take() else { return };
        if let Some(at) = keys.iter().position(|other| *other == key) {
            // It stays on its line of the screen if there is enough before it.
            self.offset = self.offset.saturating_sub(was.saturating_sub(at));
            self.chosen = Some((key, at));
        }
    }

    /// Brings the chosen line onto a screen of so many lines.
    pub(super) fn scroll(&mut self, rows: usize, lines: usize) {
        let lines = lines.max(1);
        if let Some((_, at)) = self.chosen {
            self.offset = self.offset.clamp((at + 1).saturating_sub(lines), at);
        }
        self.offset = self.offset.min(rows.saturating_sub(lines));
    }
}
