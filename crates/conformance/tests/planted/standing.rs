//! Standings that believe too much.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Liveness, LossReason, SafeUntil, Standing};

use super::Bug;

#[derive(Debug)]
pub(super) struct BuggyStanding {
    pub(super) inner: Arc<dyn Standing>,
    pub(super) bug: Bug,
}

impl BuggyStanding {
    fn overlooks(&self, reason: LossReason) -> bool {
        match self.bug {
            Bug::HoldsOutliveSessions => matches!(reason, LossReason::Expired | LossReason::Closed),
            Bug::HoldsOutliveRemovals => reason == LossReason::Removed,
            _ => false,
        }
    }
}

impl Standing for BuggyStanding {
    fn liveness(&self) -> Liveness {
        match self.inner.liveness() {
            Liveness::Lost(reason) if self.overlooks(reason) => Liveness::Held { safe_until: SafeUntil::ProcessEnd },
            liveness => liveness,
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        match self.bug {
            Bug::TellsNobodyOfALoss | Bug::HoldsOutliveSessions | Bug::HoldsOutliveRemovals => {
                Box::pin(std::future::pending())
            }
            _ => self.inner.lost(),
        }
    }
}
