//! One client: a lock that no other client wants, and its release.

use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_recipes::Mutex;

use crate::peers::Peer;
use crate::server::{Kind, Server};
use crate::{Outcome, median, ratio};

/// How many locks each of them takes in one turn.
const LOCKS_PER_TURN: u32 = 100;

/// How many turns are measured; the first ones warm up and are not counted.
const TURNS: usize = 31;
const WARM_UP_TURNS: usize = 4;

/// The name of the other's lock.
const NAME: &str = "alone";

/// Ours may take this many times what ShedLock's two statements take.
const fn budget(kind: Kind) -> f64 {
    match kind {
        Kind::Postgres => 2.0,
        Kind::Mariadb => 2.5,
    }
}

/// Measures, prints, and returns whether ours is within its budget.
pub(crate) async fn measure(server: &Server) -> Outcome<bool> {
    let keeper = server.keeper()?;
    let ours = keeper.mutex("ours")?;
    let mut peer = Peer::open(server, NAME, "one".to_owned()).await?;
    let mut times: [Vec<f64>; 2] = Default::default();
    for turn in 0..WARM_UP_TURNS + TURNS {
        let start = SystemClock.now();
        take(&ours).await?;
        let after_ours = SystemClock.now();
        for _ in 0..LOCKS_PER_TURN {
            assert!(peer.try_lock(NAME).await?, "no other client wants it");
            peer.release(NAME).await?;
        }
        let end = SystemClock.now();
        if turn >= WARM_UP_TURNS {
            let spans = [(start, after_ours), (after_ours, end)];
            for (times, (from, to)) in times.iter_mut().zip(spans) {
                let took: Duration = to.saturating_duration_since(from) / LOCKS_PER_TURN;
                times.push(took.as_secs_f64());
            }
        }
    }
    let (kind, budget) = (server.kind(), budget(server.kind()));
    let ratio = median(ratio(&times[0], &times[1]));
    let [ours, theirs] = times.map(|times| median(times) * 1e6);
    println!("{kind}: lock + release, median of {TURNS} turns of {LOCKS_PER_TURN}:");
    println!("  lockkeeper            {ours:>7.1} us");
    println!("  ShedLock's statements {theirs:>7.1} us  ratio {ratio:>5.2}  (budget {budget:.2})");
    keeper.close().await?;
    Ok(ratio <= budget)
}

async fn take(mutex: &Mutex) -> Outcome<()> {
    for _ in 0..LOCKS_PER_TURN {
        mutex.lock().await?.release().await?;
    }
    Ok(())
}
