//! One client: a lock that no other client wants, and its release.

use lockkeeper_faults::redis::Server;

use super::super::bench::Bench;
use super::super::ours;
use crate::Outcome;
use crate::load::timed;
use crate::peers::rslock::Rslock;
use crate::peers::set_nx::SetNx;
use crate::report::rows::REDIS;
use crate::report::{Group, Plot};

/// How many locks each takes in one turn.
const CALLS: u32 = 200;

/// How many turns warm up, and how many are counted.
const TURNS: [usize; 2] = [4, 41];

pub(super) async fn measure(server: &Server, name: &'static str, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*format!("redis://{}", server.address()))?;
    let ours = keeper.mutex("ours")?;
    let mut plain = SetNx::open(server.address(), "plain", 0).await?;
    let rslock = Rslock::new(server.address());
    let calls = bench.effort.calls(CALLS);
    let turns = TURNS.map(|turns| bench.effort.turns(turns));
    let compared = bench
        .turns
        .compare::<3>(turns, async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || plain.lock_and_release().await).await,
            _ => timed(calls, async || rslock.lock_and_release("rslock").await).await,
        })
        .await?;
    keeper.close().await?;
    let mut shelf = bench.shelf(Group::Redis, name);
    shelf.compared(&["plain", "rslock"], &compared);
    if name == REDIS {
        shelf.latencies(Plot::LatencyRedis, ["lockkeeper", "SET NX PX", "rslock"], &compared);
    }
    Ok(())
}
