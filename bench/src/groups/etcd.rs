//! etcd: an uncontended lock beside the calls of `clientv3/concurrency` and of `etcdctl lock`.

use lockkeeper_faults::etcd::{self, Server};

use super::ours::{self, Bench, present};
use crate::load::Outcome;
use crate::load::{one_thread, timed};
use crate::peers::etcd_calls::EtcdCalls;
use crate::report::Group;
use crate::report::rows::ETCD;

/// How many locks each takes in one turn.
const CALLS: u32 = 50;

/// How many turns warm up, and how many are counted.
const TURNS: [usize; 2] = [4, 21];

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    present(etcd::availability())?;
    bench.now("etcd: one task");
    one_thread()?.block_on(alone(bench))
}

async fn alone(bench: &mut Bench) -> Outcome<()> {
    let server = Server::standalone_on_disk().await?;
    let keeper = lockkeeper::connect(&*format!("etcd://{}", server.address()))?;
    let ours = keeper.mutex("ours")?;
    let mut theirs = EtcdCalls::open(server.address()).await?;
    let calls = bench.effort.calls(CALLS);
    let turns = TURNS.map(|turns| bench.effort.turns(turns));
    let compared = bench
        .turns
        .compare::<3>(turns, async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || theirs.mutex().await).await,
            _ => timed(calls, async || theirs.etcdctl().await).await,
        })
        .await?;
    keeper.close().await?;
    bench.shelf(Group::Etcd, ETCD).compared(&["mutex", "etcdctl"], &compared);
    Ok(())
}
