//! The marks of locks that something is wrong with, and what pages and the terminal show of a lock before either
//! writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper::backend::Part;
use lockkeeper_monitor::alerts::{About, Alert, Rule};
use lockkeeper_monitor::{CollectionMode, DeadlockVerdict, Judged, KnownContender, KnownLock, MonitorState, TimePoint};

use super::locks::kind;
use super::who::date;

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
    /// The locks of deadlocks that end by themselves soon; they are among the deadlocked ones too.
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
        Rule::Breach => "broken promise",
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
            About::Held(lock, _) | About::Lost(lock) | About::Jeopardy(lock, _) | About::Breach(lock) => {
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

/// How many holders are named; the rest is counted.
pub(crate) const NAMED_MAX: usize = 3;

/// The age after which the state is too old to be relied on: a few looks, or a few seconds.
pub(crate) fn age_max(way: CollectionMode) -> Duration {
    const AGE_MAX: Duration = Duration::from_secs(5);
    match way {
        CollectionMode::Looks(period) => AGE_MAX.max(period * 3),
        _ => AGE_MAX,
    }
}

/// For how long a contender holds, and whether it may hold for longer than that.
pub(crate) fn held(contender: &KnownContender, now: TimePoint) -> Option<(Duration, bool)> {
    /// Less than this is not worth a mark.
    const UNSURE: Duration = Duration::from_secs(2);
    let least = contender.held_at_least(now)?;
    let is_longer = contender.held_at_most(now).is_none_or(|most| most.saturating_sub(least) >= UNSURE);
    Some((least, is_longer))
}

/// For how long a lock is held by the one that holds it longest, as [`held`] says it of one.
pub(crate) fn longest_hold(lock: &KnownLock, now: TimePoint) -> Option<(Duration, bool)> {
    lock.holders().max_by_key(|holder| holder.held_at_least(now)).and_then(|holder| held(holder, now))
}

pub(crate) fn oldest_wait(lock: &KnownLock, now: TimePoint) -> Option<Duration> {
    lock.waiters().map(|waiter| waiter.age(now)).max()
}

/// How many wait for any lock, and for how long the one that waits longest, for which.
pub(crate) fn all_waits(state: &MonitorState, now: TimePoint) -> (usize, Option<(Duration, &QueueName)>) {
    let (mut waiting, mut longest): (usize, Option<(Duration, &QueueName)>) = (0, None);
    for (name, lock) in state.model.locks() {
        waiting += lock.waiters().count();
        if let Some(oldest) = oldest_wait(lock, now).filter(|age| longest.is_none_or(|(most, _)| *age > most)) {
            longest = Some((oldest, name));
        }
    }
    (waiting, longest)
}

pub(crate) fn kind_of(lock: &KnownLock) -> Option<&'static str> {
    kind(lock.contenders.iter().map(|one| &*one.info))
}

/// As what a lock is used, and how many permits it has, if that is known; with this word for a read/write lock.
pub(crate) fn shown_kind(lock: &KnownLock, read_write: &str) -> String {
    let shown = match kind_of(lock) {
        Some("rwlock") => read_write,
        kind => kind.unwrap_or("mutex"),
    };
    lock.permits.map_or_else(|| shown.to_owned(), |permits| format!("{shown} {permits}"))
}

/// What freezes a lock, or waits to.
pub(crate) fn freezer(lock: &KnownLock) -> Option<&KnownContender> {
    lock.contenders.iter().find(|one| one.info.frozen.is_some())
}

/// What freezes a lock that others wait for, its reason, and how many they are.
pub(crate) fn frozen(lock: &KnownLock) -> Option<(&KnownContender, &str, usize)> {
    let freezer = freezer(lock)?;
    let waiters = lock.waiters().count();
    (waiters > 0).then_some((freezer, freezer.info.frozen.as_deref()?, waiters))
}

/// The deadlocks that are shown: the sure ones, and the possible ones.
pub(crate) fn told_deadlocks(state: &MonitorState) -> (Vec<&Judged>, Vec<&Judged>) {
    let told = state.deadlocks.iter().filter(|judged| judged.verdict != DeadlockVerdict::Unconfirmed);
    told.partition(|judged| judged.verdict != DeadlockVerdict::Possible)
}

/// The locks of a deadlock; a semaphore may be among them twice.
pub(crate) fn locks_of(judged: &Judged) -> impl Iterator<Item = QueueName> {
    judged.deadlock.core.iter().map(|(queue, _)| queue.with_part(Part::Line))
}

/// The hour, minute and second of a time since 1970, in UTC.
pub(crate) fn hour(since_unix: Duration) -> String {
    let date = date(since_unix);
    date.get(11..19).unwrap_or(&date).to_owned()
}
