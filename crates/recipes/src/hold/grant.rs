//! The grant of a place: its identity, its token, and what may be believed of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{ContenderId, FencingToken, Standing, Ticket};

/// The grant of a place, or of one turn of it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) id: ContenderId,
    pub(crate) ticket: Ticket,
    pub(crate) token: FencingToken,
    pub(crate) standing: Arc<dyn Standing>,
}

/// The grants of one local queue whose places are left at the end of the present turn, since something else depends on
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndingGrants {
    /// The number of the last one. Numbers of grants grow, and those before it are over.
    last: Arc<AtomicU64>,
}

impl EndingGrants {
    pub(crate) fn has(&self, grant: u64) -> bool {
        self.last.load(Ordering::Acquire) >= grant
    }

    pub(crate) fn end_of(&self, grant: u64) -> EndOfPlace {
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
