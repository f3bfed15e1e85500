//! Facts about locks that pages and the terminal show, before either writes them.

use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper::backend::Part;
use lockkeeper_monitor::{CollectionMode, DeadlockVerdict, Judged, KnownContender, KnownLock, MonitorState, TimePoint};

use super::locks::kind;
use super::who::date;

/// How many holders are named; the rest is counted.
pub(crate) const NAMED_MAX: usize = 3;

/// After which age what is known is too old to be relied on: a few looks, or a few seconds.
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
    kind(lock.contenders.iter().map(|one| &one.info))
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

/// The deadlocks that are told: those that are sure, and those that may be none.
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
