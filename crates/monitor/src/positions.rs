//! The place of a contender in the last known state of its queue. Pure.

use std::collections::BTreeMap;

use lockkeeper::{ContenderId, ContenderInfo, Mode};

/// Up to so many contenders are looked through one by one, which needs no copies of their identities.
const FEW: usize = 8;

/// The places of contenders by their identities, where these are more than a few.
pub(crate) struct Positions(Option<BTreeMap<ContenderId, usize>>);

impl Positions {
    pub(crate) fn of<'a>(contenders: impl ExactSizeIterator<Item = &'a ContenderInfo>) -> Self {
        let is_long = contenders.len() > FEW;
        Self(is_long.then(|| contenders.map(key).zip(0..).collect()))
    }

    /// Returns the place of a contender among those that were not found before.
    pub(crate) fn find<'a>(
        &self,
        mut left: impl Iterator<Item = Option<&'a ContenderInfo>>,
        info: &ContenderInfo,
    ) -> Option<usize> {
        match &self.0 {
            Some(positions) => positions.get(&key(info)).copied(),
            None => left.position(|one| one.is_some_and(|one| is_same(one, info))),
        }
    }
}

/// An identity is of one queue, and a semaphore has two: the mode tells them apart.
pub(crate) fn key(info: &ContenderInfo) -> ContenderId {
    match info.mode {
        Mode::Permit => ContenderId::new(format!("permit {}", info.id)),
        _ => info.id.clone(),
    }
}

fn is_same(one: &ContenderInfo, other: &ContenderInfo) -> bool {
    one.id == other.id && (one.mode == Mode::Permit) == (other.mode == Mode::Permit)
}
