//! A snapshot: one look at all queues.

use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderInfo, QueueName};

/// The least time from one look to the next: what has changed is on a page within a second.
pub const PERIOD_MIN: Duration = Duration::from_millis(500);

/// The greatest time from one look to the next: an operator who waits for a finding waits a minute at most.
pub const PERIOD_MAX: Duration = Duration::from_secs(60);

/// The part of one connection's time that looks may take: one in this number.
const SHARE: u32 = 100;

/// All locks of a service as one look has seen them, one after the other: not at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServiceSnapshot {
    /// The locks, in the order of their names.
    pub locks: Vec<ObservedLock>,
    /// No lock was seen before this.
    pub began: BootInstant,
    /// No lock was seen after this.
    pub ended: BootInstant,
    /// The wall clock's time when it ended, since 1970-01-01 UTC.
    pub ended_unix: Duration,
}

/// One lock, as it was seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObservedLock {
    /// Its name.
    pub name: QueueName,
    /// Its contenders, in the order of [`Keeper::contenders`](lockkeeper::Keeper::contenders).
    pub contenders: Vec<ContenderInfo>,
    /// How many permits it has if it is a semaphore whose users have agreed on a number; `None` if that is not known.
    pub permits: Option<u32>,
}

/// A lock that is frozen, and so a cause of waiting, but of no deadlock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Frozen {
    /// The lock.
    pub lock: QueueName,
    /// The reason that was given.
    pub reason: String,
    /// How many contenders wait behind it.
    pub waiters: usize,
}

impl ObservedLock {
    /// Describes a lock that was seen with these contenders.
    pub fn new(name: QueueName, contenders: Vec<ContenderInfo>, permits: Option<u32>) -> Self {
        Self { name, contenders, permits }
    }
}

impl ServiceSnapshot {
    /// Describes a look that lasted from `began` to `ended`.
    pub fn new(locks: Vec<ObservedLock>, began: BootInstant, ended: BootInstant, ended_unix: Duration) -> Self {
        Self { locks, began, ended, ended_unix }
    }

    /// Returns how long after this look the next one should begin, so that looks take a hundredth of one connection's
    /// time at most; from [`PERIOD_MIN`] to [`PERIOD_MAX`].
    pub fn pause(&self) -> Duration {
        let took = self.ended.saturating_duration_since(self.began);
        took.saturating_mul(SHARE).clamp(PERIOD_MIN, PERIOD_MAX)
    }

    /// Returns the frozen locks for which contenders wait.
    pub fn frozen(&self) -> Vec<Frozen> {
        self.locks.iter().filter_map(frozen).collect()
    }
}

fn frozen(lock: &ObservedLock) -> Option<Frozen> {
    let at = lock.contenders.iter().position(|contender| contender.frozen.is_some())?;
    let holds = decide::holders(&lock.contenders);
    let waiters = (at + 1..holds.len()).filter(|&behind| !holds[behind] && lock.contenders[behind].frozen.is_none());
    let (reason, waiters) = (lock.contenders[at].frozen.clone()?, waiters.count());
    (waiters > 0).then(|| Frozen { lock: lock.name.clone(), reason, waiters })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_hundredth_of_the_time_at_most_and_come_each_minute_at_least() {
        let began = BootInstant::from_nanos(7);
        let lasted = |took| ServiceSnapshot::new(Vec::new(), began, began.saturating_add(took), Duration::ZERO);
        for (took_ms, pause_ms) in [(0, 500), (5, 500), (10, 1_000), (50, 5_000), (600, 60_000), (90_000, 60_000)] {
            assert_eq!(lasted(Duration::from_millis(took_ms)).pause(), Duration::from_millis(pause_ms), "{took_ms}");
        }
        assert_eq!(lasted(Duration::MAX).pause(), PERIOD_MAX);
    }
}
