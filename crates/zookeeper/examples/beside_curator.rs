//! An uncontended lock and release of ours beside Curator's, on one real server, in turn.
//!
//! Curator is a process of its own that is told what to do by lines over a pipe, two for each lock: some hundredths of a
//! millisecond that stand in its figure. Prints the medians and their ratio.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Keeper, Mutex};
use lockkeeper_faults::peers::{Kind, curator};
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_zookeeper::ZooKeeperBackend;

/// How many locks each takes in one turn.
const LOCKS_PER_TURN: u32 = 500;

/// How many turns are measured; the first ones warm up the virtual machine and are not counted.
const TURNS: usize = 8;
const WARM_UP_TURNS: usize = 4;

/// How long one lock may take.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// Curator's lock.
const PATH: &str = "/beside/curator";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::standalone(Setup::new()).await?;
    let address = server.address().to_string();
    let backend = ZooKeeperBackend::open(&format!("zk://{address}").parse()?)?;
    let ours = Keeper::new(Arc::new(backend)).mutex("/beside/ours")?;
    let mut theirs = curator::start(&address, Duration::from_secs(20)).await?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP_TURNS + TURNS {
        let start = SystemClock.now();
        take(&ours).await?;
        let between = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            theirs.lock(Kind::Mutex, PATH, LOCK_MAX).await?;
            theirs.release(Kind::Mutex, PATH).await?;
        }
        let end = SystemClock.now();
        if turn >= WARM_UP_TURNS {
            our_times.push(between.saturating_duration_since(start) / LOCKS_PER_TURN);
            their_times.push(end.saturating_duration_since(between) / LOCKS_PER_TURN);
        }
    }
    let (ours, theirs) = (median(our_times), median(their_times));
    println!("lock + release, median of {TURNS} turns of {LOCKS_PER_TURN}, standalone server:");
    println!("  lockkeeper  {:>8.3} ms", ours.as_secs_f64() * 1e3);
    println!("  Curator     {:>8.3} ms", theirs.as_secs_f64() * 1e3);
    println!("  ratio       {:>8.2}", ours.as_secs_f64() / theirs.as_secs_f64());
    Ok(())
}

async fn take(mutex: &Mutex) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..LOCKS_PER_TURN {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
