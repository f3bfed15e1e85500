//! Many locks, each held, and changes of them at an even pace: a lock is given back, and taken again some time later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper::{Keeper, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::Outcome;
use crate::load::Stopwatch;

/// How many tasks take the locks at first.
const TAKERS: u32 = 64;

/// The time between two changes: 100 a second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);

/// How many locks are free at most; once so many are, one is taken and one given back in turns.
const FREE_MAX: usize = 50;

/// From one changed lock to the next one: all come by, far from each other.
const STEP: u32 = 7_919;

/// How soon to look again whether all changes were told.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// When each lock was last changed whose change was not told yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Untold(Arc<Mutex<BTreeMap<String, Stopwatch>>>);

impl Untold {
    fn locked(&self) -> StdMutexGuard<'_, BTreeMap<String, Stopwatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes how long ago a lock was changed that is told of now.
    pub(super) fn take(&self, name: &str) -> Option<Duration> {
        self.locked().remove(name).map(|changed| changed.elapsed())
    }
}

/// The locks of a service, and who changes them.
pub(super) struct Locks {
    keeper: Keeper,
    held: BTreeMap<u32, MutexGuard>,
    free: VecDeque<u32>,
    count: u32,
    next: u32,
    untold: Untold,
}

fn name(number: u32) -> String {
    format!("job-{number}")
}

impl Locks {
    /// Takes so many locks.
    pub(super) async fn hold(url: &str, count: u32) -> Outcome<Self> {
        let keeper = lockkeeper::connect(url)?;
        let mut takers = JoinSet::new();
        for first in 0..TAKERS.min(count) {
            takers.spawn(take_each(keeper.clone(), first, count));
        }
        let mut held = BTreeMap::new();
        while let Some(taken) = takers.join_next().await {
            held.extend(taken??);
        }
        Ok(Self { keeper, held, free: VecDeque::new(), count, next: 0, untold: Untold::default() })
    }

    pub(super) fn untold(&self) -> Untold {
        self.untold.clone()
    }

    /// Changes locks at an even pace for a while.
    pub(super) async fn change_for(&mut self, time: Duration) -> Outcome<()> {
        let (mut pace, begun) = (interval(CHANGE_INTERVAL), Stopwatch::start());
        while begun.elapsed() < time {
            pace.tick().await;
            if self.free.len() < FREE_MAX {
                self.next = (self.next + STEP) % self.count;
                if let Some(guard) = self.held.remove(&self.next) {
                    self.note(self.next);
                    self.free.push_back(self.next);
                    guard.release().await?;
                }
            } else if let Some(number) = self.free.pop_front() {
                self.note(number);
                self.held.insert(number, self.keeper.mutex(&name(number))?.lock().await?);
            }
        }
        Ok(())
    }

    fn note(&self, number: u32) {
        self.untold.locked().insert(name(number), Stopwatch::start());
    }

    /// Waits until each change was told.
    pub(super) async fn until_told(&self, within: Duration) -> Outcome<()> {
        let told = async {
            while !self.untold.locked().is_empty() {
                sleep(LOOK_AGAIN_AFTER).await;
            }
        };
        let late = |_| format!("{} changes were not told within {within:?}", self.untold.locked().len());
        Ok(timeout(within, told).await.map_err(late)?)
    }

    /// Gives all back.
    pub(super) async fn close(self) -> Outcome<()> {
        drop(self.held);
        Ok(self.keeper.close().await?)
    }
}

/// Takes every so manieth lock.
async fn take_each(keeper: Keeper, first: u32, count: u32) -> Outcome<Vec<(u32, MutexGuard)>> {
    let mut taken = Vec::new();
    for number in (first..count).step_by(TAKERS as usize) {
        taken.push((number, keeper.mutex(&name(number))?.lock().await?));
    }
    Ok(taken)
}
