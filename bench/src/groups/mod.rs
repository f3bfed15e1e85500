//! What is measured together, a file each. A group makes its keepers and peers, puts them under the same load in
//! turn, and writes down the figures of each round.

mod etcd;
mod file;
mod following;
mod memory;
mod needs;
mod ours;
mod redis;
mod run;
mod server;
mod sql;
mod zookeeper;

use crate::Outcome;
use crate::load::Effort;
use crate::report::{Group, Record};

pub(crate) use server::serve;
pub(crate) use zookeeper::contend;

/// Measures one group.
pub(crate) fn measure(group: Group, effort: Effort, record: &mut Record) -> Outcome<()> {
    match group {
        Group::Memory => memory::measure(effort, record),
        Group::File => file::measure(effort, record),
        Group::Run => run::measure(effort, record),
        Group::ZooKeeper => zookeeper::measure(effort, record),
        Group::Etcd => etcd::measure(effort, record),
        Group::Redis => redis::measure(effort, record),
        Group::Sql => sql::measure(effort, record),
        Group::Server => server::measure(effort, record),
        Group::Following => following::measure(effort, record),
    }
}
