//! A snapshot: one look at all queues of a service, and how it is taken.

use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::clock::{BootInstant, Clock};
use lockkeeper::follow::Scope;
use lockkeeper::{Advice, ContenderInfo, Error, ErrorKind, Keeper, Mode, Operation, QueueName, Result};
use tokio::task::{JoinError, JoinSet};

/// The election of the monitor that sends alerts, in the service that is watched. A collector does not show it.
pub const SENDERS: &str = "lockkeeper-monitor/alerts";

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
    /// Its contenders, in the order of [`Keeper::contenders`].
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

/// How many locks are looked at at once: enough that few round trips are waited for, and little work for a service at a
/// time.
const LOOKS_AT_ONCE_MAX: usize = 16;

/// Looks at all locks in use of a scope.
///
/// It takes no part in any of them. Where contenders wait for a semaphore, it opens a session, to read how many permits
/// the holders have agreed on; a user who may not is told nothing of these semaphores' deadlocks.
///
/// # Errors
///
/// Transient if the service cannot be reached now, permanent if it refuses.
///
/// # Cancellation
///
/// Dropping the future changes nothing.
pub async fn look(keeper: &Keeper, clock: &dyn Clock, scope: &Scope) -> Result<ServiceSnapshot> {
    let began = clock.now();
    let mut names: Vec<_> = keeper.admin().queues(&scope.prefix).await?;
    names.extend(scope.also.iter().cloned());
    let mut names = names.into_iter().enumerate();
    let mut looks = JoinSet::new();
    let mut seen = Vec::new();
    loop {
        for (number, name) in names.by_ref().take(LOOKS_AT_ONCE_MAX.saturating_sub(looks.len())) {
            let keeper = keeper.clone();
            looks.spawn(async move { Ok::<_, Error>((number, look_at(&keeper, name).await?)) });
        }
        match looks.join_next().await {
            Some(Ok(looked)) => seen.push(looked?),
            Some(Err(ended)) => return Err(unless_panicked(ended)),
            None => break,
        }
    }
    // They are answered in any order.
    seen.sort_by_key(|&(number, _)| number);
    // A contender may have left since the locks were listed.
    let locks = seen.into_iter().map(|(_, lock)| lock).filter(|lock| !lock.contenders.is_empty()).collect();
    Ok(ServiceSnapshot::new(locks, began, clock.now(), clock.unix_time()))
}

async fn look_at(keeper: &Keeper, name: QueueName) -> Result<ObservedLock> {
    let contenders = keeper.contenders(name.as_str()).await?;
    let is_awaited = contenders.iter().any(|contender| contender.mode == Mode::Acquire && contender.frozen.is_none());
    let permits = if is_awaited { permits(keeper, &name).await? } else { None };
    Ok(ObservedLock::new(name, contenders, permits))
}

/// Goes on with the panic of a task, if it has ended by one: else the runtime is ending, and runs no task any more.
fn unless_panicked(ended: JoinError) -> Error {
    match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => {
            Error::transient(ErrorKind::Closed, Operation::Inspect, "the runtime that looks at the locks is ending")
        }
    }
}

/// Asks how many permits a semaphore has; none is known where this user is refused.
pub(crate) async fn permits(keeper: &Keeper, name: &QueueName) -> Result<Option<u32>> {
    match keeper.admin().agreed_permits(name.as_str()).await {
        Err(error) if error.advice() == Advice::Permanent => Ok(None),
        asked => asked,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

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

    #[tokio::test]
    async fn a_look_whose_tasks_were_cancelled_fails_and_one_that_panicked_goes_on_with_the_panic() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let error = unless_panicked(cancelled.await.unwrap_err());
        assert!(error.is_transient() && error.to_string().contains("the runtime"), "{error}");
        let panicked = tokio::spawn(async { panic!("a bug") }).await.unwrap_err();
        let panic = catch_unwind(AssertUnwindSafe(|| unless_panicked(panicked))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug"));
    }
}
