//! A mark that the place of a turn is left when the turn ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The grants of one local queue whose places are left at the end of the present turn, since something else depends on
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct EndingGrants {
    /// The number of the last one. Numbers of grants grow, and those before it are over.
    last: Arc<AtomicU64>,
}

impl EndingGrants {
    pub(super) fn has(&self, grant: u64) -> bool {
        self.last.load(Ordering::Acquire) >= grant
    }

    pub(super) fn end_of(&self, grant: u64) -> EndOfPlace {
        EndOfPlace { ending: self.clone(), grant }
    }
}

/// Has the place of a turn left when the turn ends, since something else depends on it: no later turn is to be had of
/// it. All turns of one grant have the same, and after the turn that notes it there is none.
#[derive(Clone, Debug)]
pub(crate) struct EndOfPlace {
    ending: EndingGrants,
    grant: u64,
}

impl EndOfPlace {
    pub(crate) fn note(&self) {
        self.ending.last.fetch_max(self.grant, Ordering::AcqRel);
    }
}
