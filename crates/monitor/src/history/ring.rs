//! Records in the order of time, each with the way to the one before it of the same lock. The oldest are forgotten by
//! the block.

use std::collections::{HashMap, VecDeque};

use super::names::NameNumber;

/// How many records are made room for, and forgotten, at once: little beside the bound of memory.
const BLOCK: usize = 1_024;

/// What the newest record of a lock takes in the table that finds it.
const NEWEST_BYTES: usize = 24;

#[derive(Clone, Debug)]
pub(super) struct RecordRing<Record> {
    blocks: VecDeque<Vec<Chained<Record>>>,
    /// The number of the first record that is kept.
    first: u64,
    /// The number of the newest record of each lock that has one.
    newest: HashMap<NameNumber, u64>,
}

/// A record of a lock.
#[derive(Clone, Debug)]
pub(super) struct Chained<Record> {
    pub(super) lock: NameNumber,
    /// How many records before this one the one before it of the same lock is; 0 if there is none.
    back: u32,
    pub(super) record: Record,
}

impl<Record> Default for RecordRing<Record> {
    fn default() -> Self {
        Self { blocks: VecDeque::new(), first: 0, newest: HashMap::new() }
    }
}

impl<Record> RecordRing<Record> {
    pub(super) fn push(&mut self, lock: NameNumber, record: Record) {
        let number = self.next();
        let before = self.newest.insert(lock, number);
        let back = before.and_then(|before| u32::try_from(number - before).ok()).unwrap_or(0);
        if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push_back(Vec::with_capacity(BLOCK));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(Chained { lock, back, record });
        }
    }

    /// Returns the number that the next record will have.
    fn next(&self) -> u64 {
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        self.first + (full + self.blocks.back().map_or(0, Vec::len)) as u64
    }

    fn get(&self, number: u64) -> Option<&Chained<Record>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.blocks.get(at / BLOCK)?.get(at % BLOCK)
    }

    /// Returns the newest record of a lock.
    pub(super) fn newest_mut(&mut self, lock: NameNumber) -> Option<&mut Record> {
        let at = usize::try_from(self.newest.get(&lock)?.checked_sub(self.first)?).ok()?;
        Some(&mut self.blocks.get_mut(at / BLOCK)?.get_mut(at % BLOCK)?.record)
    }

    /// Returns the records of a lock, the newest first.
    pub(super) fn of(&self, lock: NameNumber) -> impl Iterator<Item = &Record> {
        let mut next = self.newest.get(&lock).copied();
        std::iter::from_fn(move || {
            let number = next?;
            let found = self.get(number)?;
            next = (found.back > 0).then(|| number.saturating_sub(u64::from(found.back)));
            Some(&found.record)
        })
    }

    /// Returns all records, the newest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Chained<Record>> {
        self.blocks.iter().rev().flat_map(|block| block.iter().rev())
    }

    pub(super) fn oldest(&self) -> Option<&Record> {
        self.blocks.front()?.first().map(|chained| &chained.record)
    }

    /// Forgets the oldest records, and returns them.
    pub(super) fn forget_block(&mut self) -> Vec<Chained<Record>> {
        let Some(block) = self.blocks.pop_front() else { return Vec::new() };
        self.first += block.len() as u64;
        for chained in &block {
            if self.newest.get(&chained.lock).is_some_and(|&newest| newest < self.first) {
                self.newest.remove(&chained.lock);
            }
        }
        block
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.next() - self.first).unwrap_or(usize::MAX)
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<Chained<Record>>() + self.newest.len() * NEWEST_BYTES
    }
}
