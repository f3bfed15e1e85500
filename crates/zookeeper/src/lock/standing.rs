//! What a place grants: until when it may be believed, and what ends it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{BoxFuture, Liveness, LossReason, Revocation, SessionBond, Standing};

use crate::lock::inner::Inner;
use crate::lock::place::Place;
use crate::lock::prover;

/// How long a loss is kept back at most until it is known whether the session went with the node.
const REASON_TIME_MAX: Duration = Duration::from_millis(500);

/// What may be believed of one place: as much as of its session, while its node is there.
#[derive(Debug)]
pub(super) struct PlaceStanding {
    inner: Arc<Inner>,
    place: Arc<Place>,
}

impl PlaceStanding {
    pub(super) fn new(inner: Arc<Inner>, place: Arc<Place>) -> Self {
        Self { inner, place }
    }
}

impl Standing for PlaceStanding {
    fn bond(&self) -> &SessionBond {
        self.inner.link.bond()
    }

    fn liveness(&self) -> Liveness {
        match self.bond().liveness() {
            lost @ Liveness::Lost(_) => lost,
            held => self.place.loss().map_or(held, Liveness::Lost),
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            let bond = inner.link.bond();
            tokio::select! {
                biased;
                reason = bond.lost() => return reason,
                () = place.removal() => {}
            }
            let clock = inner.link.clock();
            tokio::select! {
                biased;
                reason = bond.lost() => reason,
                reason = place.reason() => match bond.liveness() {
                    Liveness::Lost(reason) => reason,
                    Liveness::Held { .. } | Liveness::Jeopardy { .. } => reason,
                },
                () = clock.sleep_until(clock.now().saturating_add(REASON_TIME_MAX)) => LossReason::Removed,
            }
        })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            // Most holders never ask for it, and then nothing is read for them.
            prover::watch_own(&inner, &place);
            place.revoked().await
        })
    }
}
