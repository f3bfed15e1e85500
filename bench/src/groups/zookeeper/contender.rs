//! One of several processes that contend for a lock: this program, started by itself.
//!
//! It says when it is ready, begins when it is told, and answers with one line of figures.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::{Handoff, Keeper, Mutex};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::ours;
use crate::Outcome;
use crate::load::{Stopwatch, two_threads};

/// What it says when it has its session.
pub(super) const READY: &str = "ready";

/// How long it waits between two separate locks that tell how long a join takes under this load.
const JOIN_EVERY: Duration = Duration::from_millis(50);

/// What a process has seen.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Seen {
    pub(super) grants: u64,
    pub(super) longest_wait_s: f64,
    /// The time of a turn: from a grant to the next one of the same place. Sum and number.
    pub(super) turns_s: f64,
    pub(super) turns: u64,
    /// The time of a lock and release that no other client wants. Sum and number.
    pub(super) joins_s: f64,
    pub(super) joins: u64,
}

/// The last grant of the process: its place, and when it was.
type Last = Option<(u64, Duration)>;

pub(crate) fn contend(url: &str, name: &str, tasks: usize, time: Duration) -> Outcome<()> {
    two_threads()?.block_on(async {
        let keeper = lockkeeper::connect(url)?;
        let joining = keeper.mutex(&format!("join {}", std::process::id()))?;
        ours::lock_and_release(&joining).await?;
        ours::lock_and_release(&keeper.mutex(name)?).await?;
        println!("{READY}");
        io::stdout().flush()?;
        io::stdin().lock().read_line(&mut String::new())?;
        let seen = contending(&keeper, name, joining, tasks, time).await?;
        println!("{}", serde_json::to_string(&seen)?);
        Ok(keeper.close().await?)
    })
}

async fn contending(keeper: &Keeper, name: &str, joining: Mutex, tasks: usize, time: Duration) -> Outcome<Seen> {
    let stopped = Arc::new(AtomicBool::new(false));
    let last = Arc::new(std::sync::Mutex::new(Last::None));
    let begun = Stopwatch::start();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let mutex = keeper.mutex(name)?.handoff(Handoff::local());
        running.spawn(take_turns(mutex, stopped.clone(), last.clone(), begun));
    }
    running.spawn(join_at_times(joining, stopped.clone()));
    sleep(time).await;
    stopped.store(true, Ordering::Relaxed);
    let mut seen = Seen::default();
    while let Some(ended) = running.join_next().await {
        seen.add(&ended??);
    }
    Ok(seen)
}

async fn take_turns(
    mutex: Mutex,
    stopped: Arc<AtomicBool>,
    last: Arc<std::sync::Mutex<Last>>,
    begun: Stopwatch,
) -> Outcome<Seen> {
    let mut seen = Seen::default();
    while !stopped.load(Ordering::Relaxed) {
        let asked = begun.elapsed();
        let guard = mutex.lock().await?;
        let now = begun.elapsed();
        seen.grants += 1;
        seen.longest_wait_s = seen.longest_wait_s.max((now - asked).as_secs_f64());
        let place = guard.fencing_token().as_u64();
        if let Some((before, when)) = last.lock().expect("no task has panicked").replace((place, now))
            && before == place
        {
            seen.turns_s += now.saturating_sub(when).as_secs_f64();
            seen.turns += 1;
        }
        guard.release().await?;
    }
    Ok(seen)
}

async fn join_at_times(mutex: Mutex, stopped: Arc<AtomicBool>) -> Outcome<Seen> {
    let mut seen = Seen::default();
    while !stopped.load(Ordering::Relaxed) {
        let watch = Stopwatch::start();
        ours::lock_and_release(&mutex).await?;
        seen.joins_s += watch.elapsed().as_secs_f64();
        seen.joins += 1;
        sleep(JOIN_EVERY).await;
    }
    Ok(seen)
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.grants += other.grants;
        self.longest_wait_s = self.longest_wait_s.max(other.longest_wait_s);
        self.turns_s += other.turns_s;
        self.turns += other.turns;
        self.joins_s += other.joins_s;
        self.joins += other.joins;
    }

    /// How long a contender may wait: so many processes ahead, each with so many turns, and as many joins. Both times
    /// are means of what the processes themselves have seen under this load.
    pub(super) fn bound_s(&self, processes: u32, turns_max: u32) -> f64 {
        let mean = |sum: f64, count: u64| sum / count.max(1) as f64;
        let turn = mean(self.turns_s, self.turns);
        f64::from(processes) * (f64::from(turns_max) * turn + mean(self.joins_s, self.joins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_of_all_turns_and_joins_ahead() {
        let one = Seen { turns_s: 1.0, turns: 100, joins_s: 2.0, joins: 10, ..Seen::default() };
        let mut both = one;
        both.add(&Seen { turns_s: 3.0, turns: 100, longest_wait_s: 9.0, ..Seen::default() });
        assert_eq!(both.longest_wait_s, 9.0);
        assert!((both.bound_s(8, 64) - 8.0 * (64.0 * 0.02 + 0.2)).abs() < 1e-9, "{both:?}");
    }
}
