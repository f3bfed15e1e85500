//! One client: a lock that no other client wants, and its release.

use super::super::ours;
use super::server::Server;
use crate::Outcome;
use crate::load::{Effort, Turns, timed};
use crate::report::{Group, Record};

/// How many locks each takes in one turn.
const CALLS: u32 = 100;

/// How many turns are counted, and how many warm up.
const TURNS: usize = 21;
const WARM_UP_TURNS: usize = 4;

/// The name of the other's lock.
const NAME: &str = "alone";

pub(super) async fn measure(server: &Server, effort: Effort, turns: &mut Turns, record: &mut Record) -> Outcome<()> {
    let keeper = server.keeper()?;
    let ours = keeper.mutex("ours")?;
    let mut shedlock = server.shedlock(NAME, "one").await?;
    let mut advisory = server.advisory().await?;
    let calls = effort.calls(CALLS);
    let compared = turns
        .compare::<3>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || shedlock.lock_and_release(NAME).await).await,
            _ => timed(calls, async || advisory.lock_and_release().await).await,
        })
        .await?;
    keeper.close().await?;
    let mut shelf = record.shelf(Group::Sql, server.kind().name());
    for [ours, shedlock, advisory] in compared.means_s {
        shelf.beside("shedlock", ours, shedlock);
        shelf.beside("advisory", ours, advisory);
    }
    for (name, latency) in ["lockkeeper", "ShedLock's statements", "advisory lock"].into_iter().zip(&compared.latencies)
    {
        shelf.latency(server.kind().latency_plot(), name, latency);
    }
    Ok(())
}
