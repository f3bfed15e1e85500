//! What a place grants: until when it may be believed, and what ends it.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Liveness, LossReason, Revocation, SessionBond, Standing};

use crate::queue::place::Place;

/// What may be believed of one place: as much as of its session, while its contender is there.
#[derive(Debug)]
pub(super) struct PlaceStanding(pub(super) Arc<Place>);

impl Standing for PlaceStanding {
    fn bond(&self) -> &SessionBond {
        self.0.bond.session()
    }

    fn liveness(&self) -> Liveness {
        self.0.bond.liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let place = self.0.clone();
        Box::pin(async move { place.bond.lost().await })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let place = self.0.clone();
        Box::pin(async move { place.bond.revoked().await })
    }
}
