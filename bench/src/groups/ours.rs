//! Our own locks under load, on any service, and the means of every group: how much is measured, whose turn it is, and
//! where the figures go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::{Event, Handoff, Keeper, Mutex, Observer};
use lockkeeper_faults::Availability;

use crate::load::Outcome;
use crate::load::{Calls, Crowd, CrowdGrants, Effort, Turns, per_second, timed};
use crate::report::{Group, Record, Shelf};

pub(crate) const CROWD: usize = 32;

/// Calls whose times are the size of reading a clock are timed so many at once.
const CALLS_AT_ONCE: u32 = 1_000;

/// Counts events, as a program that watches its locks does.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Observer for Counting {
    fn on_event(&self, _: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn observed(url: &str) -> Outcome<Keeper> {
    Ok(lockkeeper::builder(url)?.observer(Arc::<Counting>::default()).build())
}

/// Takes the lock and gives it back, and waits until that is certain.
pub(crate) async fn lock_and_release(mutex: &Mutex) -> Outcome<()> {
    Ok(mutex.lock().await?.release().await?)
}

/// Times each of this many locks with their releases.
pub(crate) async fn alone(mutex: &Mutex, count: u32) -> Outcome<Calls> {
    timed(count, async || lock_and_release(mutex).await).await
}

/// How many locks with their releases a second, where one takes less than a microsecond.
pub(crate) async fn rate(mutex: &Mutex, count: u32) -> Outcome<f64> {
    per_second(count.max(CALLS_AT_ONCE), async || lock_and_release(mutex).await).await
}

/// Lets tasks contend for one lock of this keeper.
pub(crate) async fn crowd(
    keeper: &Keeper,
    name: &str,
    handoff: Handoff,
    tasks: usize,
    time: Duration,
) -> Outcome<CrowdGrants> {
    let mutex = keeper.mutex(name)?.handoff(handoff);
    // Opens the session.
    lock_and_release(&mutex).await?;
    let mut crowd = Crowd::new();
    for _ in 0..tasks {
        let mutex = mutex.clone();
        crowd.add(move || {
            let mutex = mutex.clone();
            async move { lock_and_release(&mutex).await }
        });
    }
    crowd.end_after(time).await
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) effort: Effort,
    pub(crate) turns: Turns,
    pub(crate) record: Record,
}

impl Bench {
    pub(crate) fn new(effort: Effort, groups: &[Group]) -> Self {
        Self { effort, turns: Turns::new(), record: Record::new(groups) }
    }

    /// Says what is being measured now.
    pub(super) fn now(&self, what: &str) {
        self.record.now(what);
    }

    /// Where a group writes down its figures of one server.
    pub(super) fn shelf(&mut self, group: Group, server: &'static str) -> Shelf<'_> {
        self.record.shelf(group, server)
    }
}

/// Fails with what is missing, and its cure.
pub(super) fn present(what: Availability) -> Outcome<()> {
    match what {
        Availability::Present => Ok(()),
        Availability::Missing(why) => Err(why.into()),
    }
}
