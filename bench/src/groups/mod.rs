//! The groups of measurements, a file each. A group makes its keepers and peers, puts them under the same load in turn,
//! and writes down the figures of each round.

mod etcd;
mod file;
mod following;
mod memory;
mod monitor;
mod ours;
mod redis;
mod run;
mod server;
mod sql;
mod zookeeper;

use crate::load::Outcome;
use crate::load::Turns;
use crate::report::Group;

pub(crate) use ours::Bench;
pub(crate) use server::serve;
pub(crate) use zookeeper::contend;

/// Measures one group; the order of its turns does not depend on the groups before it.
pub(crate) fn measure(group: Group, bench: &mut Bench) -> Outcome<()> {
    bench.turns = Turns::new();
    match group {
        Group::Memory => memory::measure(bench),
        Group::File => file::measure(bench),
        Group::Run => run::measure(bench),
        Group::ZooKeeper => zookeeper::measure(bench),
        Group::Etcd => etcd::measure(bench),
        Group::Redis => redis::measure(bench),
        Group::Sql => sql::measure(bench),
        Group::Server => server::measure(bench),
        Group::Following => following::measure(bench),
        Group::Monitor => monitor::measure(bench),
    }
}
