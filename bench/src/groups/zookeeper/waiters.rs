//! A hand-off in short and in long queues: from one grant to the next.
//!
//! A holder lets so many waiters join, and gives the lock to the first; each gives it on at once. Of a long queue only
//! the first part is counted, while it is still long.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use lockkeeper::{Keeper, Mutex};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::bench::Bench;
use super::ground::Ground;
use crate::Outcome;
use crate::load::{Latency, Stopwatch};
use crate::report::{Group, Plot};

/// How many wait, and how often they do so in one round: about as many hand-offs are counted of each.
const QUEUES: [(u32, u32); 3] = [(10, 20), (100, 2), (1_000, 1)];

/// How many hand-offs of one queue are counted.
const COUNTED: usize = 200;

/// How long they may take to join, and how soon to look again.
const JOINED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

pub(super) async fn measure(ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    for _ in 0..bench.effort.rounds() {
        let mut medians = [0.0; QUEUES.len()];
        for number in bench.turns.order::<{ QUEUES.len() }>() {
            let (waiters, times) = QUEUES[number];
            let mut latency = Latency::new();
            for _ in 0..bench.effort.calls(times).min(times) {
                hand_offs(&keeper, waiters, &mut latency).await?;
            }
            medians[number] = latency.median();
            let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
            shelf.point(Plot::HandoffZooKeeper, "Strict", waiters, medians[number] * 1e3);
        }
        bench.shelf(Group::ZooKeeper, ground.name).beside("waiters", medians[QUEUES.len() - 1], medians[0]);
    }
    Ok(keeper.close().await?)
}

async fn hand_offs(keeper: &Keeper, waiters: u32, latency: &mut Latency) -> Outcome<()> {
    let mutex = keeper.mutex("waiters")?;
    let held = mutex.lock().await?;
    let granted = Arc::new(StdMutex::new(Vec::new()));
    let begun = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        tasks.spawn(wait(mutex.clone(), begun, granted.clone()));
    }
    timeout(JOINED_WITHIN, joined(keeper, waiters as usize + 1)).await??;
    held.release().await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let granted = granted.lock().expect("no task has panicked");
    for pair in granted.windows(2).take(COUNTED) {
        latency.note(pair[1].saturating_sub(pair[0]));
    }
    Ok(())
}

async fn wait(mutex: Mutex, begun: Stopwatch, granted: Arc<StdMutex<Vec<Duration>>>) -> Outcome<()> {
    let guard = mutex.lock().await?;
    granted.lock().expect("no task has panicked").push(begun.elapsed());
    Ok(guard.release().await?)
}

async fn joined(keeper: &Keeper, contenders: usize) -> Outcome<()> {
    while keeper.contenders("waiters").await?.len() < contenders {
        sleep(LOOK_AGAIN_AFTER).await;
    }
    Ok(())
}
