//! Standings that believe too much.

use std::sync::Arc;

use lockkeeper_conformance::at_most;
use lockkeeper_core::{BoxFuture, Liveness, LivenessAt, LossReason, Revocation, SafeUntil, Standing};

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
    fn liveness(&self, at: LivenessAt) -> Liveness {
        match self.inner.liveness(at) {
            Liveness::Lost(reason) if self.overlooks(reason) => Liveness::Held { safe_until: SafeUntil::ProcessEnd },
            Liveness::Lost(LossReason::Broken) if matches!(self.bug, Bug::BreaksAsRemoval) => {
                Liveness::Lost(LossReason::Removed)
            }
            liveness => liveness,
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        match self.bug {
            Bug::TellsNoHolderOfALoss | Bug::HoldsOutliveSessions | Bug::HoldsOutliveRemovals => {
                Box::pin(std::future::pending())
            }
            Bug::BreaksAsRemoval => {
                let lost = self.inner.lost();
                Box::pin(async move {
                    let reason = lost.await;
                    if reason == LossReason::Broken { LossReason::Removed } else { reason }
                })
            }
            _ => self.inner.lost(),
        }
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let mut revoked = self.inner.revoked();
        match self.bug {
            Bug::NeverYields => Box::pin(std::future::pending()),
            Bug::ForgetsEarlierRequests => Box::pin(async move {
                match at_most(1, &mut revoked).await {
                    Some(_) => std::future::pending().await,
                    None => revoked.await,
                }
            }),
            _ => revoked,
        }
    }
}
