//! What is measured together, a file each. A group makes its keepers and peers, puts them under the same load in
//! turn, and writes down the figures of each round.

mod file;
mod memory;
mod ours;
mod run;

use crate::Outcome;
use crate::load::Effort;
use crate::report::{Group, Record};

/// Measures one group.
pub(crate) fn measure(group: Group, effort: Effort, record: &mut Record) -> Outcome<()> {
    match group {
        Group::Memory => memory::measure(effort, record),
        Group::File => file::measure(effort, record),
        Group::Run => run::measure(effort, record),
    }
}
