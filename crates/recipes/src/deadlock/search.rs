//! The circle that a wait closes: by reduction, since one of several permits may be enough.
//!
//! All keys that the asker waits for, directly or through others, are taken to be stuck, until one of their waits can
//! end by what keys that go on give up. A contender that is in no table goes on: a plain task, and any other process.
//! What is stuck in the end stays so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use lockkeeper_core::QueueName;

use crate::deadlock::table::{KeyId, KeyTable, TableEntry, WaitStage, Want};

/// How many holds and places a search looks at, each as often as a wait needs it, so that a wait costs some
/// milliseconds at most. Beyond them it finds no circle.
const STEPS_MAX: usize = 10_000;

/// How many waits of a circle are said, so that a line can be read.
const SAID_MAX: usize = 8;

/// One step of a circle: a key, the lock that it waits for, and who keeps it waiting there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct CircleLink {
    pub(super) waiter: KeyId,
    pub(super) lock: QueueName,
    pub(super) ahead: KeyId,
    pub(super) by: BlockedBy,
}

/// By what one key keeps another one waiting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BlockedBy {
    /// It holds the lock.
    Hold,
    /// It has permits, and too few free ones remain.
    Permits,
    /// It waits ahead of the other.
    Place,
}

/// What one wait needs.
struct WaitingKey {
    key: KeyId,
    number: usize,
    /// How much weight of stuck keys it bears: permits that may stay taken, and else nothing.
    spare: u64,
    /// The weight of those that may be stuck.
    load: u64,
    ahead: Vec<(KeyId, u64, BlockedBy)>,
}

/// Finds the circle that the wait of this entry closes, beginning with it.
pub(super) fn circle(table: &KeyTable, asker: usize) -> Option<Vec<CircleLink>> {
    if !keeps_others_waiting(table, asker) {
        return None;
    }
    let mut waits = collect(table, table.entry(asker).key)?;
    let stuck = reduce(&mut waits);
    shortest(table, &waits, &stuck, asker)
}

/// Tells whether others may wait for what the asker has: most that wait have nothing, and are in no circle.
fn keeps_others_waiting(table: &KeyTable, asker: usize) -> bool {
    let TableEntry { key, lock, stage, .. } = table.entry(asker);
    let has_behind = match stage {
        WaitStage::Waits(Some(place)) => table.has_behind(lock, place.number),
        _ => false,
    };
    has_behind || table.of_key(*key).any(|(_, entry)| !entry.waits())
}

/// Collects the waits of this key, of those that it waits for, and so on; `None` if they are too many.
fn collect(table: &KeyTable, from: KeyId) -> Option<Vec<WaitingKey>> {
    let (mut waits, mut seen, mut next) = (Vec::new(), BTreeSet::from([from]), vec![from]);
    let mut steps = 0;
    while let Some(key) = next.pop() {
        for (number, entry) in table.of_key(key).filter(|(_, entry)| entry.waits()) {
            let wait = waiting(table, number, entry, &mut steps);
            if steps > STEPS_MAX {
                return None;
            }
            next.extend(wait.ahead.iter().map(|&(key, ..)| key).filter(|&key| seen.insert(key)));
            waits.push(wait);
        }
    }
    Some(waits)
}

/// Looks what one wait needs, and counts what it looks at.
fn waiting(table: &KeyTable, number: usize, entry: &TableEntry, steps: &mut usize) -> WaitingKey {
    let TableEntry { key, lock, want, stage } = entry;
    let spare = match *want {
        Want::Share | Want::Alone => 0,
        Want::Permits { wanted, of: Some(of) } => u64::from(of.saturating_sub(wanted)),
        // It is not known what would be enough.
        Want::Permits { of: None, .. } => u64::MAX,
    };
    let hold = |held: &TableEntry| {
        let (weight, by) = match (*want, held.want) {
            (Want::Share, Want::Alone) | (Want::Alone, Want::Alone | Want::Share) => (1, BlockedBy::Hold),
            (Want::Permits { .. }, Want::Permits { wanted, .. }) => (u64::from(wanted), BlockedBy::Permits),
            _ => return None,
        };
        let is_held = matches!(&held.stage, WaitStage::Holds(is_held) if is_held());
        is_held.then_some((held.key, weight, by))
    };
    // The nearest one is enough: it waits for those ahead of it, or for the same as they.
    let is_in_the_way = |ahead: &&TableEntry| {
        let keeps_out =
            matches!((*want, ahead.want), (Want::Share, Want::Alone) | (Want::Permits { .. }, Want::Permits { .. }));
        keeps_out && matches!(&ahead.stage, WaitStage::Waits(Some(place)) if (place.stands)())
    };
    *steps += 1;
    let most = STEPS_MAX.saturating_sub(*steps) + 1;
    let mut ahead: Vec<_> = table.holds(lock).take(most).inspect(|_| *steps += 1).filter_map(hold).collect();
    let most = STEPS_MAX.saturating_sub(*steps) + 1;
    if let WaitStage::Waits(Some(place)) = stage
        && let Some(nearest) = table.ahead(lock, place.number).take(most).inspect(|_| *steps += 1).find(is_in_the_way)
    {
        ahead.push((nearest.key, spare.saturating_add(1), BlockedBy::Place));
    }
    let load = ahead.iter().fold(0_u64, |load, &(_, weight, _)| load.saturating_add(weight));
    WaitingKey { key: *key, number, spare, load, ahead }
}

/// Takes away the keys that can go on; returns the others. A key with several waits goes on by any of them.
fn reduce(waits: &mut [WaitingKey]) -> BTreeSet<KeyId> {
    let mut stuck: BTreeSet<KeyId> = waits.iter().map(|wait| wait.key).collect();
    let mut bears: BTreeMap<KeyId, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, wait) in waits.iter().enumerate() {
        for &(key, weight, _) in &wait.ahead {
            bears.entry(key).or_default().push((at, weight));
        }
    }
    let is_over = |wait: &WaitingKey| wait.load <= wait.spare;
    let mut gone: Vec<KeyId> = bears.keys().copied().filter(|key| !stuck.contains(key)).collect();
    gone.extend(waits.iter().filter(|wait| is_over(wait)).map(|wait| wait.key).filter(|key| stuck.remove(key)));
    while let Some(key) = gone.pop() {
        for &(at, weight) in bears.get(&key).into_iter().flatten() {
            let wait = &mut waits[at];
            wait.load = wait.load.saturating_sub(weight);
            if is_over(wait) && stuck.remove(&wait.key) {
                gone.push(wait.key);
            }
        }
    }
    stuck
}

/// Returns the shortest way from the asker's wait through stuck keys back to the asker.
fn shortest(table: &KeyTable, waits: &[WaitingKey], stuck: &BTreeSet<KeyId>, asker: usize) -> Option<Vec<CircleLink>> {
    let key = table.entry(asker).key;
    let links = |wait: &WaitingKey| {
        let (waiter, lock) = (wait.key, table.entry(wait.number).lock.clone());
        let stuck = wait.ahead.iter().filter(|(ahead, ..)| stuck.contains(ahead));
        stuck.map(move |&(ahead, _, by)| CircleLink { waiter, lock: lock.clone(), ahead, by }).collect::<Vec<_>>()
    };
    if !stuck.contains(&key) {
        return None;
    }
    let first = waits.iter().find(|wait| wait.number == asker)?;
    let mut of_keys: BTreeMap<KeyId, Vec<&WaitingKey>> = BTreeMap::new();
    for wait in waits {
        of_keys.entry(wait.key).or_default().push(wait);
    }
    let mut came_by: BTreeMap<KeyId, CircleLink> = BTreeMap::new();
    let mut next: VecDeque<CircleLink> = links(first).into();
    while let Some(link) = next.pop_front() {
        let ahead = link.ahead;
        if came_by.contains_key(&ahead) {
            continue;
        }
        came_by.insert(ahead, link);
        if ahead == key {
            break;
        }
        next.extend(of_keys.get(&ahead).into_iter().flatten().flat_map(|wait| links(wait)));
    }
    let mut circle = Vec::new();
    let mut at = key;
    while let Some(link) = came_by.remove(&at) {
        at = link.waiter;
        circle.push(link);
    }
    circle.reverse();
    (!circle.is_empty()).then_some(circle)
}

/// Says a circle in words.
pub(super) fn in_words(circle: &[CircleLink]) -> String {
    let said: Vec<String> = circle.iter().take(SAID_MAX).map(CircleLink::to_string).collect();
    let more = circle.len().saturating_sub(SAID_MAX);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("it would wait for itself: {}{more}", said.join("; "))
}

/// `owner key k2 waits for door, which owner key k1 holds`.
impl fmt::Display for CircleLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, lock, ahead, by } = self;
        write!(formatter, "{waiter} waits for {lock}, ")?;
        match by {
            BlockedBy::Hold => write!(formatter, "which {ahead} holds"),
            BlockedBy::Permits => write!(formatter, "of which {ahead} has a permit"),
            BlockedBy::Place => write!(formatter, "where {ahead} waits ahead of it"),
        }
    }
}
