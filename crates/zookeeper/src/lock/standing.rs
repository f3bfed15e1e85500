//! The standing of a place: until when it may be believed, and what ends it.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Liveness, LivenessAt, LossReason, Revocation, Standing};

use crate::lock::inner::Inner;
use crate::lock::place::Place;
use crate::lock::prover;

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
    fn liveness(&self, _at: LivenessAt) -> Liveness {
        self.place.bond.liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let place = self.place.clone();
        Box::pin(async move { place.bond.lost().await })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let (inner, place) = (self.inner.clone(), self.place.clone());
        Box::pin(async move {
            // Most holders never ask for it, and then nothing is read for them.
            prover::watch_own(&inner, &place);
            place.bond.revoked().await
        })
    }
}
