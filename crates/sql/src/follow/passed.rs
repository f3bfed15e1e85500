//! The count of contenders that came and went between two looks: those that have joined, by the counts of their queues,
//! without those that the later look is the first to show. Pure.
//!
//! A look shows the counts of queues that have changed. A queue that rests for long is forgotten: behind that its count
//! begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::{ContenderInfo, Mode, Part, QueueName};

use crate::answer::QueueCount;
use crate::schema::{COUNT_REST, time_ms};

/// The counts of all queues, as one look after the other has shown them.
#[derive(Debug, Default)]
pub(super) struct JoinCounts {
    queues: BTreeMap<QueueName, QueueCount>,
    look: i64,
}

impl JoinCounts {
    /// The number of the last look; 0 before the first one.
    pub(super) const fn look(&self) -> i64 {
        self.look
    }

    /// Takes in what a look with this number has shown. Returns how many have joined each lock since the look before;
    /// at the first look, since the counts began.
    pub(super) fn take(&mut self, shown: Vec<QueueCount>, look: i64) -> BTreeMap<QueueName, u64> {
        let mut joined = BTreeMap::new();
        for now in shown {
            let before = self.queues.get(&now.queue).filter(|before| !has_rested(before.last_ms, now.last_ms));
            let since = now.joined.saturating_sub(before.map_or(0, |before| before.joined));
            if let Ok(since @ 1..) = u64::try_from(since) {
                *joined.entry(now.queue.with_part(Part::Line)).or_default() += since;
            }
            self.queues.insert(now.queue.clone(), now);
        }
        self.queues.retain(|_, count| !has_rested(count.last_ms, time_ms(look)));
        self.look = look;
        joined
    }
}

/// Whether a queue has rested for so long that its count began anew.
fn has_rested(last_ms: i64, now_ms: i64) -> bool {
    u64::try_from(now_ms.saturating_sub(last_ms)).is_ok_and(|rest_ms| u128::from(rest_ms) > COUNT_REST.as_millis())
}

/// Returns how many of those that joined a lock have passed, at most. Who waits at a gate is not counted.
pub(super) fn passed(joined: u64, before: &[Arc<ContenderInfo>], now: &[Arc<ContenderInfo>]) -> u64 {
    let before: BTreeSet<_> = before.iter().map(|info| &info.id).collect();
    let shown = now.iter().filter(|info| info.mode != Mode::Acquire && !before.contains(&info.id)).count();
    joined.saturating_sub(shown as u64)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::ContenderId;

    use super::*;

    const REST_MS: i64 = COUNT_REST.as_millis() as i64;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    /// What a look at such a time shows of queues.
    fn take(counts: &mut JoinCounts, look_ms: i64, shown: &[(&QueueName, i64, i64)]) -> Vec<(String, u64)> {
        let count =
            |&(queue, joined, last_ms): &(&QueueName, i64, i64)| QueueCount { queue: queue.clone(), joined, last_ms };
        let joined = counts.take(shown.iter().map(count).collect(), look_ms << 20);
        assert_eq!(counts.look(), look_ms << 20);
        joined.into_iter().map(|(lock, joined)| (lock.to_string(), joined)).collect()
    }

    fn said(lock: &str, joined: u64) -> Vec<(String, u64)> {
        vec![(lock.to_owned(), joined)]
    }

    #[test]
    fn the_joins_of_a_lock_are_what_the_counts_of_its_queues_have_grown_by() {
        let (line, permits) = (name("a"), name("a").with_part(Part::Permits));
        let mut counts = JoinCounts::default();
        take(&mut counts, 10, &[(&line, 5, 9), (&permits, 40, 9)]);
        assert_eq!(take(&mut counts, 20, &[(&line, 7, 19), (&permits, 41, 18)]), said("a", 3));
        assert_eq!(take(&mut counts, 30, &[(&line, 7, 19)]), [], "it is shown again");
        assert_eq!(take(&mut counts, 40, &[(&line, 7, 35), (&permits, 2, 35)]), [], "a value was set; one counts down");
        assert_eq!(
            take(&mut counts, 50, &[(&permits, 3, 45), (&name("b"), 2, 45)]),
            [said("a", 1), said("b", 2)].concat()
        );
    }

    #[test]
    fn a_count_begins_anew_behind_a_rest_whether_a_look_saw_the_rest_or_not() {
        let queue = name("a");
        let mut counts = JoinCounts::default();
        take(&mut counts, 10, &[(&queue, 5, 9)]);
        assert_eq!(take(&mut counts, REST_MS + 20, &[(&queue, 6, REST_MS + 9)]), said("a", 1), "it had not rested");
        let rested_ms = REST_MS + 9 + REST_MS + 1;
        assert_eq!(take(&mut counts, rested_ms, &[(&queue, 6, rested_ms)]), said("a", 6), "no look between");
        take(&mut counts, rested_ms + REST_MS + 1, &[]);
        assert!(counts.queues.is_empty());
        let again_ms = rested_ms + REST_MS + 2;
        assert_eq!(take(&mut counts, again_ms, &[(&queue, 7, again_ms)]), said("a", 7));
    }

    #[test]
    fn a_clock_that_is_set_back_takes_nothing_from_a_count() {
        let queue = name("a");
        let mut counts = JoinCounts::default();
        take(&mut counts, 2 * REST_MS, &[(&queue, 5, 2 * REST_MS)]);
        assert_eq!(take(&mut counts, 10, &[(&queue, 8, 2 * REST_MS)]), said("a", 3));
        assert_eq!(take(&mut counts, 20, &[(&queue, 9, 2 * REST_MS)]), said("a", 1));
    }

    #[test]
    fn those_that_the_later_look_is_the_first_to_show_have_not_passed() {
        let shown = |id: &str, mode| Arc::new(ContenderInfo::new(ContenderId::new(id), mode));
        let seen = |ids: &[&str]| -> Vec<_> { ids.iter().map(|id| shown(id, Mode::Mutex)).collect() };
        let at_the_gate = shown("9", Mode::Acquire);
        for (joined, before, now, expected) in [
            (3, &[][..], &[][..], 3),
            (3, &["1"], &["1", "4"], 2),
            (1, &["1"], &["2"], 0),
            (0, &["1"], &["2"], 0),
            (2, &["1", "2"], &["2"], 2),
        ] {
            let now = [seen(now), vec![at_the_gate.clone()]].concat();
            assert_eq!(passed(joined, &seen(before), &now), expected, "{joined} {before:?}");
        }
    }
}
