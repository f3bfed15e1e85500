//! The means of every group: how much is measured, whose turn it is, and where the figures go.

use lockkeeper_faults::Availability;

use crate::Outcome;
use crate::load::{Effort, Turns};
use crate::report::{Group, Record, Shelf};

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) effort: Effort,
    pub(crate) turns: Turns,
    pub(crate) record: Record,
}

impl Bench {
    pub(crate) fn new(effort: Effort, groups: &[Group]) -> Self {
        Self { effort, turns: Turns::new(), record: Record::new(groups) }
    }

    /// Says what is being measured now.
    pub(super) fn now(&self, what: &str) {
        self.record.now(what);
    }

    /// Where a group writes down its figures of one server.
    pub(super) fn shelf(&mut self, group: Group, server: &'static str) -> Shelf<'_> {
        self.record.shelf(group, server)
    }
}

/// Fails with what is missing, and its cure.
pub(super) fn present(what: Availability) -> Outcome<()> {
    match what {
        Availability::Present => Ok(()),
        Availability::Missing(why) => Err(why.into()),
    }
}
