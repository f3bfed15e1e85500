//! The locks that something is wrong with, and the words that mark them, as pages and the terminal show it.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper::QueueName;
use lockkeeper_monitor::alerts::{About, Alert, Rule};
use lockkeeper_monitor::{DeadlockVerdict, KnownLock, MonitorState};

use super::known::{freezer, locks_of};

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum LockMark {
    #[default]
    None,
    /// No waiter is granted it until it is thawed.
    Frozen,
    /// What an alert says of it, in two or three words.
    Told(&'static str),
    Deadlock,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct LockMarks {
    deadlocked: BTreeSet<QueueName>,
    /// Of those that end by themselves soon; these are among the deadlocked ones too.
    ending: BTreeSet<QueueName>,
    /// Of deadlocks that may be none.
    doubtful: BTreeSet<QueueName>,
    /// What alerts say of them.
    told: BTreeMap<QueueName, &'static str>,
}

/// Names a rule by a tag beside a lock.
pub(crate) const fn tag(rule: Rule) -> &'static str {
    match rule {
        Rule::Held => "held long",
        Rule::Waiters => "long queue",
        Rule::Lost => "lost often",
        Rule::Jeopardy => "no sign of life",
        _ => rule.as_str(),
    }
}

impl LockMarks {
    pub(crate) fn new(state: &MonitorState, firing: &[Alert]) -> Self {
        let locks_of = |is_so: fn(DeadlockVerdict) -> bool| {
            let judged = state.deadlocks.iter().filter(move |judged| is_so(judged.verdict));
            judged.flat_map(locks_of).collect()
        };
        let deadlocked = locks_of(|verdict| matches!(verdict, DeadlockVerdict::Known | DeadlockVerdict::EndsSoon(_)));
        let ending = locks_of(|verdict| matches!(verdict, DeadlockVerdict::EndsSoon(_)));
        let doubtful = locks_of(|verdict| verdict == DeadlockVerdict::Possible);
        // Of several the last one counts: a holder that is silent now comes before what was.
        let told = firing.iter().filter_map(|alert| match &alert.about {
            About::Held(lock, _) | About::Lost(lock) | About::Jeopardy(lock, _) => {
                Some((lock.clone(), tag(alert.about.rule())))
            }
            // The length of a queue is in its row, and a deadlock has its own mark.
            _ => None,
        });
        Self { deadlocked, ending, doubtful, told: told.collect() }
    }

    /// Returns how a lock is marked: by the worst that is wrong with it.
    pub(crate) fn of(&self, name: &QueueName, lock: &KnownLock) -> LockMark {
        if self.deadlocked.contains(name) {
            return LockMark::Deadlock;
        }
        if freezer(lock).is_some() {
            return LockMark::Frozen;
        }
        self.told.get(name).map_or(LockMark::None, |words| LockMark::Told(words))
    }
}

#[cfg(feature = "monitor")]
impl LockMarks {
    pub(crate) fn has(&self, lock: &QueueName) -> bool {
        self.deadlocked.contains(lock) || self.told.contains_key(lock)
    }

    /// Returns the locks that are marked in one of these alone, or otherwise.
    pub(crate) fn differing(&self, other: &Self) -> BTreeSet<QueueName> {
        let deadlocked = self.deadlocked.symmetric_difference(&other.deadlocked);
        let ending = self.ending.symmetric_difference(&other.ending);
        let doubtful = self.doubtful.symmetric_difference(&other.doubtful);
        let told = self.told.keys().chain(other.told.keys());
        let told = told.filter(|&lock| self.told.get(lock) != other.told.get(lock));
        deadlocked.chain(ending).chain(doubtful).chain(told).cloned().collect()
    }
}

#[cfg(all(test, feature = "monitor"))]
mod tests {
    use std::time::Duration;

    use lockkeeper::ContenderId;
    use lockkeeper_monitor::alerts::AlertFinding;

    use super::*;

    fn lock(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    fn marks(abouts: Vec<About>) -> LockMarks {
        let firing = |about| Alert::new(about, AlertFinding::Said("wrong".to_owned()), Duration::ZERO);
        LockMarks::new(&MonitorState::default(), &abouts.into_iter().map(firing).collect::<Vec<_>>())
    }

    #[test]
    fn a_lock_is_marked_by_what_is_wrong_with_it_and_differs_when_that_does() {
        let id = ContenderId::new("c");
        let held = marks(vec![About::Held(lock("a"), id.clone()), About::Waiters(lock("b"))]);
        let lost = marks(vec![About::Lost(lock("a"))]);
        let silent = marks(vec![About::Held(lock("a"), id.clone()), About::Jeopardy(lock("a"), id)]);
        for (marks, words) in [(&held, "held long"), (&lost, "lost often"), (&silent, "no sign of life")] {
            assert_eq!(marks.told.get(&lock("a")), Some(&words));
            assert!(marks.has(&lock("a")) && !marks.has(&lock("b")));
        }
        assert_eq!(held.differing(&lost), BTreeSet::from([lock("a")]));
        assert_eq!(held.differing(&LockMarks::default()), BTreeSet::from([lock("a")]));
        assert!(held.differing(&held).is_empty());
    }

    #[test]
    fn a_deadlock_that_ends_soon_is_marked_apart_from_one_that_does_not() {
        let (known, soon) = (LockMarks::default(), BTreeSet::from([lock("a")]));
        let known = LockMarks { deadlocked: soon.clone(), ..known };
        let ending = LockMarks { ending: soon.clone(), ..known.clone() };
        assert_eq!(known.differing(&ending), soon);
    }
}
