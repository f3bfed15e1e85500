//! etcd: an uncontended lock beside the calls of `clientv3/concurrency` and of `etcdctl lock`.

use lockkeeper_faults::etcd::{self, Server};

use super::needs::present;
use super::ours;
use crate::Outcome;
use crate::load::{Effort, Turns, one_thread, timed};
use crate::peers::etcd_calls::EtcdCalls;
use crate::report::rows::ETCD;
use crate::report::{Group, Plot, Record};

/// How many locks each takes in one turn.
const CALLS: u32 = 50;

/// How many turns are counted, and how many warm up.
const TURNS: usize = 21;
const WARM_UP_TURNS: usize = 4;

pub(super) fn measure(effort: Effort, record: &mut Record) -> Outcome<()> {
    present(etcd::availability())?;
    record.now("etcd: one task");
    one_thread()?.block_on(alone(effort, record))
}

async fn alone(effort: Effort, record: &mut Record) -> Outcome<()> {
    let server = Server::standalone_on_disk().await?;
    let keeper = lockkeeper::connect(&*format!("etcd://{}", server.address()))?;
    let ours = keeper.mutex("ours")?;
    let mut theirs = EtcdCalls::open(server.address()).await?;
    let calls = effort.calls(CALLS);
    let compared = Turns::new()
        .compare::<3>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || theirs.mutex().await).await,
            _ => timed(calls, async || theirs.etcdctl().await).await,
        })
        .await?;
    keeper.close().await?;
    let mut shelf = record.shelf(Group::Etcd, ETCD);
    for [ours, mutex, etcdctl] in compared.means_s {
        shelf.beside("mutex", ours, mutex);
        shelf.beside("etcdctl", ours, etcdctl);
    }
    for (name, latency) in ["lockkeeper", "clientv3 mutex", "etcdctl lock"].into_iter().zip(&compared.latencies) {
        shelf.latency(Plot::LatencyEtcd, name, latency);
    }
    Ok(())
}
