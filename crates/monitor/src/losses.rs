//! The count of each lock's losses lately: by holders whose process died or whose session was ended. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockkeeper::backend::ProcessId;
use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderId, ContenderInfo, QueueName};

/// For how long a loss counts.
pub(crate) const LOSS_COUNTS_FOR: Duration = Duration::from_secs(10 * 60);

/// How many losses of one lock are counted: more are as bad.
const LOSSES_MAX: usize = 1_000;

/// How many locks they are counted of; of those beyond it the losses are events alone.
const LOCKS_MAX: usize = 10_000;

/// What ends as one, with all that it holds.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum HolderBond<'a> {
    Session(&'a str),
    Process(ProcessId),
    Contender(&'a ContenderId),
}

fn owner(info: &ContenderInfo) -> HolderBond<'_> {
    let of_process = || info.caller.process.map_or(HolderBond::Contender(&info.id), HolderBond::Process);
    info.session.as_deref().map_or_else(of_process, HolderBond::Session)
}

/// Counts the losses of those who were lost together: a process that dies with many permits has died once.
pub(crate) fn losses_of<'a>(lost: impl Iterator<Item = &'a ContenderInfo>) -> usize {
    lost.map(owner).collect::<BTreeSet<_>>().len()
}

/// The losses of all locks, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(BTreeMap<QueueName, VecDeque<BootInstant>>);

impl Losses {
    /// Notes a loss.
    pub(crate) fn note(&mut self, lock: &QueueName, now: BootInstant) {
        self.forget_old(now);
        if self.0.len() >= LOCKS_MAX && !self.0.contains_key(lock) {
            return;
        }
        let losses = self.0.entry(lock.clone()).or_default();
        if losses.len() >= LOSSES_MAX {
            losses.pop_front();
        }
        losses.push_back(now);
    }

    fn forget_old(&mut self, now: BootInstant) {
        self.0.retain(|_, losses| {
            while losses.front().is_some_and(|&then| !counts(then, now)) {
                losses.pop_front();
            }
            !losses.is_empty()
        });
    }

    /// Returns the locks that were lost lately, each with the number of its losses.
    pub(crate) fn recent(&self, now: BootInstant) -> impl Iterator<Item = (&QueueName, usize)> {
        let counted =
            self.0.iter().map(move |(lock, losses)| (lock, losses.iter().filter(|&&then| counts(then, now)).count()));
        counted.filter(|&(_, count)| count > 0)
    }
}

fn counts(then: BootInstant, now: BootInstant) -> bool {
    now.saturating_duration_since(then) < LOSS_COUNTS_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanos(seconds * 1_000_000_000)
    }

    fn recent(losses: &Losses, second: u64) -> Vec<(String, usize)> {
        losses.recent(at(second)).map(|(lock, count)| (lock.to_string(), count)).collect()
    }

    #[test]
    fn the_losses_and_the_locks_that_are_kept_are_bounded() {
        let mut losses = Losses::default();
        let lock = |number: usize| QueueName::new(&format!("l{number}")).unwrap();
        (0..LOSSES_MAX + 5).for_each(|_| losses.note(&lock(0), at(1)));
        (1..LOCKS_MAX + 5).for_each(|number| losses.note(&lock(number), at(1)));
        let counts: Vec<_> = recent(&losses, 1).into_iter().map(|(_, count)| count).collect();
        assert_eq!((counts.len(), counts.iter().max()), (LOCKS_MAX, Some(&LOSSES_MAX)));
    }
}
