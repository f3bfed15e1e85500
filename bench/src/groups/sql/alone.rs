//! One client: a lock that no other client wants, and its release.

use super::super::bench::Bench;
use super::super::ours;
use super::server::Server;
use crate::Outcome;
use crate::load::timed;
use crate::report::Group;

/// How many locks each takes in one turn.
const CALLS: u32 = 100;

/// How many turns warm up, and how many are counted.
const TURNS: [usize; 2] = [4, 21];

/// The name of the other's lock.
const NAME: &str = "alone";

pub(super) async fn measure(server: &Server, bench: &mut Bench) -> Outcome<()> {
    let keeper = server.keeper()?;
    let ours = keeper.mutex("ours")?;
    let mut shedlock = server.shedlock(NAME, "one").await?;
    let mut advisory = server.advisory().await?;
    let calls = bench.effort.calls(CALLS);
    let turns = TURNS.map(|turns| bench.effort.turns(turns));
    let compared = bench
        .turns
        .compare::<3>(turns, async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || shedlock.lock_and_release(NAME).await).await,
            _ => timed(calls, async || advisory.lock_and_release().await).await,
        })
        .await?;
    keeper.close().await?;
    let mut shelf = bench.shelf(Group::Sql, server.name());
    shelf.compared(&["shedlock", "advisory"], &compared);
    shelf.latencies(server.latency_plot(), ["lockkeeper", "ShedLock's statements", "advisory lock"], &compared);
    Ok(())
}
