//! An uncontended lock and release of ours beside a bare socket and beside Curator, on one real server, in turn.
//!
//! Curator is a separate process that gets its commands as lines over a pipe, two for each lock. They cost some
//! hundredths of a millisecond, which are part of its figure. Prints the medians and their ratios.

mod bare;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::peers::{Kind, curator};
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_recipes::{Keeper, Mutex};
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};

use bare::BareLock;

/// How many locks each of them takes in one turn.
const LOCKS_PER_TURN: u32 = 500;

/// How many turns are measured; the first ones warm up the virtual machine and are not counted.
const TURNS: usize = 8;
const WARM_UP_TURNS: usize = 4;

/// How long one lock may take.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// Curator's lock.
const PATH: &str = "/beside/curator";

/// The bare socket's queue.
const BARE_PATH: &str = "/beside/bare";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::standalone_on_disk(Setup::new()).await?;
    let address = server.address().to_string();
    let url = format!("zk://{address}").parse()?;
    let operator = Client::connect(&Config::from_url(&url)?).await?;
    for path in ["/beside", BARE_PATH] {
        operator.create(NewNode::persistent(path)).await?;
    }
    let mut bare = BareLock::open(server.address(), BARE_PATH).await?;
    let ours = Keeper::new(Arc::new(ZooKeeperBackend::open(&url)?)).mutex("/beside/ours")?;
    let mut theirs = curator::start(&address, Duration::from_secs(20)).await?;
    let (mut bare_times, mut our_times, mut their_times) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..WARM_UP_TURNS + TURNS {
        let start = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            bare.lock_and_release().await?;
        }
        let after_bare = SystemClock.now();
        take(&ours).await?;
        let after_ours = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            theirs.lock(Kind::Mutex, PATH, LOCK_MAX).await?;
            theirs.release(Kind::Mutex, PATH).await?;
        }
        let end = SystemClock.now();
        if turn >= WARM_UP_TURNS {
            bare_times.push(after_bare.saturating_duration_since(start) / LOCKS_PER_TURN);
            our_times.push(after_ours.saturating_duration_since(after_bare) / LOCKS_PER_TURN);
            their_times.push(end.saturating_duration_since(after_ours) / LOCKS_PER_TURN);
        }
    }
    let [bare, ours, theirs] = [bare_times, our_times, their_times].map(median);
    println!("lock + release, median of {TURNS} turns of {LOCKS_PER_TURN}, standalone server:");
    println!("  bare socket {:>8.3} ms", bare.as_secs_f64() * 1e3);
    println!("  lockkeeper  {:>8.3} ms  {:.2} x bare socket", ours.as_secs_f64() * 1e3, ratio(ours, bare));
    println!("  Curator     {:>8.3} ms", theirs.as_secs_f64() * 1e3);
    println!("  lockkeeper / Curator {:.2}", ratio(ours, theirs));
    Ok(())
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
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
