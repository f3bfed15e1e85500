//! One client: a lock that no other client wants, and its release.

use lockkeeper_faults::redis::Server;

use super::super::ours;
use crate::Outcome;
use crate::load::{Effort, Turns, timed};
use crate::peers::rslock::Rslock;
use crate::peers::set_nx::SetNx;
use crate::report::rows::REDIS;
use crate::report::{Group, Plot, Record};

/// How many locks each takes in one turn.
const CALLS: u32 = 200;

/// How many turns are counted, and how many warm up.
const TURNS: usize = 41;
const WARM_UP_TURNS: usize = 4;

pub(super) async fn measure(
    server: &Server,
    name: &'static str,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*format!("redis://{}", server.address()))?;
    let ours = keeper.mutex("ours")?;
    let mut plain = SetNx::open(server.address(), "plain", 0).await?;
    let rslock = Rslock::new(server.address());
    let calls = effort.calls(CALLS);
    let compared = turns
        .compare::<3>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || plain.lock_and_release().await).await,
            _ => timed(calls, async || rslock.lock_and_release("rslock").await).await,
        })
        .await?;
    keeper.close().await?;
    let mut shelf = record.shelf(Group::Redis, name);
    for [ours, plain, rslock] in compared.means_s {
        shelf.beside("plain", ours, plain);
        shelf.beside("rslock", ours, rslock);
    }
    if name == REDIS {
        for (name, latency) in ["lockkeeper", "SET NX PX", "rslock"].into_iter().zip(&compared.latencies) {
            shelf.latency(Plot::LatencyRedis, name, latency);
        }
    }
    Ok(())
}
