//! One client: a lock that no other client wants, and its release.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::redis::Server;
use lockkeeper_recipes::{Keeper, Mutex};
use lockkeeper_redis::RedisBackend;

use crate::peers::{PlainLock, Rslock};
use crate::{median, ratio};

/// How many locks each of them takes in one turn.
const LOCKS_PER_TURN: u32 = 200;

/// How many turns are measured; the first ones warm up and are not counted.
const TURNS: usize = 41;
const WARM_UP_TURNS: usize = 4;

/// Ours may take this many times what `SET NX PX` and compare-and-delete take …
const PLAIN_BUDGET: f64 = 1.4;

/// … and this many times what `rslock` takes.
const RSLOCK_BUDGET: f64 = 1.0;

/// Measures, prints, and returns whether ours is within its budgets.
pub(crate) async fn measure(server: &Server, what: &str) -> Result<bool, Box<dyn Error + Send + Sync>> {
    let url = format!("redis://{}", server.address()).parse()?;
    let ours = Keeper::new(Arc::new(RedisBackend::open(&url)?)).mutex("ours")?;
    let mut plain = PlainLock::open(server.address(), "plain", 0).await?;
    let rslock = Rslock::new(server.address());
    let mut times: [Vec<Duration>; 3] = Default::default();
    for turn in 0..WARM_UP_TURNS + TURNS {
        let start = SystemClock.now();
        take(&ours).await?;
        let after_ours = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            assert!(plain.try_lock().await?, "no other client wants it");
            plain.release().await?;
        }
        let after_plain = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            rslock.lock_and_release("rslock").await?;
        }
        let end = SystemClock.now();
        if turn >= WARM_UP_TURNS {
            let spans = [(start, after_ours), (after_ours, after_plain), (after_plain, end)];
            for (times, (from, to)) in times.iter_mut().zip(spans) {
                times.push(to.saturating_duration_since(from) / LOCKS_PER_TURN);
            }
        }
    }
    let times = times.map(|times| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>());
    let ratios = [1, 2].map(|other| median(ratio(&times[0], &times[other])));
    let [ours, plain, rslock] = times.map(|times| median(times) * 1e6);
    println!("lock + release, median of {TURNS} turns of {LOCKS_PER_TURN}, {what}:");
    println!("  lockkeeper                 {ours:>7.1} us");
    println!("  SET NX PX + compare-delete {plain:>7.1} us  ratio {:>5.2}  (budget {PLAIN_BUDGET:.2})", ratios[0]);
    println!("  rslock                     {rslock:>7.1} us  ratio {:>5.2}  (budget {RSLOCK_BUDGET:.2})", ratios[1]);
    Ok(ratios[0] <= PLAIN_BUDGET && ratios[1] <= RSLOCK_BUDGET)
}

async fn take(mutex: &Mutex) -> Result<(), Box<dyn Error + Send + Sync>> {
    for _ in 0..LOCKS_PER_TURN {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}
