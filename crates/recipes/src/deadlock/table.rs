//! The table of owner keys: what each holds and waits for. An entry is a hold of a key, or a call of one that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lockkeeper_core::{Flow, FlowKind, QueueName};
use slab::Slab;

/// An owner key within its process.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct KeyId {
    /// No two keys have the same one.
    pub(crate) number: u64,
    /// How it is called in the queues.
    pub(crate) flow: Flow,
}

/// What a key has of a lock, or asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Want {
    /// A share, as a reader.
    Share,
    /// All of it.
    Alone,
    /// So many permits of a semaphore.
    Permits {
        wanted: u32,
        /// How many there are; not known if a counter says it.
        of: Option<u32>,
    },
}

/// Tells whether a hold is still held, or a place in a queue still stands.
pub(super) type StandsProof = Box<dyn Fn() -> bool + Send + Sync>;

/// The place in a queue in which a key waits.
pub(super) struct WaitPlace {
    /// Grows with each contender of the queue.
    pub(super) number: u64,
    pub(super) stands: StandsProof,
}

pub(super) enum WaitStage {
    /// It waits; the place is not known where tasks of this process share one.
    Waits(Option<WaitPlace>),
    Holds(StandsProof),
}

pub(super) struct TableEntry {
    pub(super) key: KeyId,
    pub(super) lock: QueueName,
    pub(super) want: Want,
    pub(super) stage: WaitStage,
}

impl TableEntry {
    fn place(&self) -> Option<u64> {
        match &self.stage {
            WaitStage::Waits(place) => place.as_ref().map(|place| place.number),
            WaitStage::Holds(_) => None,
        }
    }

    pub(super) const fn waits(&self) -> bool {
        matches!(self.stage, WaitStage::Waits(_))
    }
}

/// What is known of one lock: the numbers of entries.
#[derive(Default)]
struct AtLock {
    holds: BTreeSet<usize>,
    /// The waiters in a place, by its number.
    places: BTreeSet<(u64, usize)>,
}

/// The keys of one keeper.
#[derive(Default)]
pub(crate) struct KeyTable {
    entries: Slab<TableEntry>,
    of_keys: BTreeMap<KeyId, BTreeSet<usize>>,
    at_locks: BTreeMap<QueueName, AtLock>,
}

impl KeyTable {
    pub(super) fn add(&mut self, entry: TableEntry) -> usize {
        let number = self.entries.insert(entry);
        self.enter(number);
        number
    }

    /// Removes an entry, to be dropped where the table is not locked any more.
    pub(super) fn remove(&mut self, number: usize) -> TableEntry {
        self.leave(number);
        self.entries.remove(number)
    }

    /// Notes in which place the call of an entry waits now; returns what was noted before, to be dropped elsewhere too.
    pub(super) fn note(&mut self, number: usize, place: WaitPlace) -> WaitStage {
        self.leave(number);
        let noted = std::mem::replace(&mut self.entries[number].stage, WaitStage::Waits(Some(place)));
        self.enter(number);
        noted
    }

    fn enter(&mut self, number: usize) {
        let entry = &self.entries[number];
        self.of_keys.entry(entry.key).or_default().insert(number);
        let at_lock = self.at_locks.entry(entry.lock.clone()).or_default();
        match (entry.place(), entry.waits()) {
            (Some(place), _) => at_lock.places.insert((place, number)),
            (None, false) => at_lock.holds.insert(number),
            (None, true) => false,
        };
    }

    fn leave(&mut self, number: usize) {
        let entry = &self.entries[number];
        if let Some(of_key) = self.of_keys.get_mut(&entry.key) {
            of_key.remove(&number);
            if of_key.is_empty() {
                self.of_keys.remove(&entry.key);
            }
        }
        if let Some(at_lock) = self.at_locks.get_mut(&entry.lock) {
            at_lock.holds.remove(&number);
            if let Some(place) = entry.place() {
                at_lock.places.remove(&(place, number));
            }
            if at_lock.holds.is_empty() && at_lock.places.is_empty() {
                self.at_locks.remove(&entry.lock);
            }
        }
    }

    pub(super) fn entry(&self, number: usize) -> &TableEntry {
        &self.entries[number]
    }

    /// Returns what a key holds and waits for.
    pub(super) fn of_key(&self, key: KeyId) -> impl Iterator<Item = (usize, &TableEntry)> {
        self.of_keys.get(&key).into_iter().flatten().map(|&number| (number, &self.entries[number]))
    }

    /// Returns the holds of a lock.
    pub(super) fn holds(&self, lock: &QueueName) -> impl Iterator<Item = &TableEntry> {
        self.at_locks.get(lock).into_iter().flat_map(|at_lock| &at_lock.holds).map(|&number| &self.entries[number])
    }

    /// Returns the waiters ahead of this place, the nearest one first.
    pub(super) fn ahead(&self, lock: &QueueName, place: u64) -> impl Iterator<Item = &TableEntry> {
        let at_lock = self.at_locks.get(lock);
        let ahead = at_lock.into_iter().flat_map(move |at_lock| at_lock.places.range(..(place, 0)).rev());
        ahead.map(|&(_, number)| &self.entries[number])
    }

    /// Tells whether any key waits behind this place.
    pub(super) fn has_behind(&self, lock: &QueueName, place: u64) -> bool {
        self.at_locks.get(lock).is_some_and(|at_lock| at_lock.places.range((place + 1, 0)..).next().is_some())
    }

    /// Tells whether nothing is left of entries that have gone.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.of_keys.is_empty() && self.at_locks.is_empty()
    }
}

/// `owner key k5`, `thread h2`: as queues show them, and nothing of their content.
impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.flow.kind() {
            FlowKind::OwnerKey => "owner key",
            FlowKind::Thread => "thread",
            _ => "task",
        };
        write!(formatter, "{kind} {}", self.flow)
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Table").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}
