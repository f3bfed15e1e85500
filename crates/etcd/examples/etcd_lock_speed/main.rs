//! An uncontended lock and release of ours beside the calls of `clientv3/concurrency` and of `etcdctl lock`, on one
//! real server, in turn. Prints the medians and their ratios, and fails if ours is over its budget.
//!
//! All run on one thread, so that calls are compared, and not how soon a busy machine wakes the threads of one program.

mod calls;
#[path = "../../src/proto.rs"]
#[allow(dead_code, reason = "other clients use fewer messages")]
mod proto;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd::Server;
use lockkeeper_recipes::{Keeper, Mutex};

use crate::calls::Calls;

/// How many locks each of them takes in one turn.
const LOCKS_PER_TURN: u32 = 50;

/// How many turns are measured; the first ones warm up and are not counted.
const TURNS: usize = 20;
const WARM_UP_TURNS: usize = 4;

/// Ours may take this many times what a mutex under a session that stands takes …
const MUTEX_BUDGET: f64 = 1.2;

/// … and this many times what `etcdctl lock` takes, which makes a session for each lock.
const ETCDCTL_BUDGET: f64 = 0.65;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::standalone_on_disk().await?;
    let url = format!("etcd://{}", server.address()).parse()?;
    let ours = Keeper::new(Arc::new(EtcdBackend::open(&url)?)).mutex("ours")?;
    let mut theirs = Calls::open(server.address()).await?;
    let mut times: [Vec<Duration>; 3] = Default::default();
    for turn in 0..WARM_UP_TURNS + TURNS {
        let start = SystemClock.now();
        take(&ours).await?;
        let after_ours = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            theirs.mutex().await?;
        }
        let after_mutex = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            theirs.etcdctl().await?;
        }
        let end = SystemClock.now();
        if turn >= WARM_UP_TURNS {
            let spans = [(start, after_ours), (after_ours, after_mutex), (after_mutex, end)];
            for (times, (from, to)) in times.iter_mut().zip(spans) {
                times.push(to.saturating_duration_since(from) / LOCKS_PER_TURN);
            }
        }
    }
    let ratios = [1, 2].map(|other| median(times[0].iter().zip(&times[other]).map(ratio).collect()));
    let [ours, mutex, etcdctl] = times.map(|times| median(times.iter().map(Duration::as_secs_f64).collect()) * 1e3);
    println!("lock + release, median of {TURNS} turns of {LOCKS_PER_TURN}, one server:");
    println!("  lockkeeper        {ours:>7.3} ms");
    println!("  clientv3 mutex    {mutex:>7.3} ms  ratio {:>5.2}  (budget {MUTEX_BUDGET:.2})", ratios[0]);
    println!("  etcdctl lock      {etcdctl:>7.3} ms  ratio {:>5.2}  (budget {ETCDCTL_BUDGET:.2})", ratios[1]);
    let is_within = ratios[0] <= MUTEX_BUDGET && ratios[1] <= ETCDCTL_BUDGET;
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn take(mutex: &Mutex) -> Result<(), Box<dyn Error>> {
    for _ in 0..LOCKS_PER_TURN {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

fn ratio((ours, theirs): (&Duration, &Duration)) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
