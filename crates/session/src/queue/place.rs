//! One of a session's own contenders, once it is stored, and what it grants: until when it may be believed, and what
//! ends it.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, FencingToken, Liveness, LivenessAt, LossReason, PlaceBond, QueueName, Revocation, Standing,
    Ticket,
};

/// What a service keeps of a contender of ours.
pub trait Own: Send + Sync + 'static {
    /// Notes that we are leaving it ourselves.
    fn withdrawn(&self) {}
}

/// A contender of ours that is stored.
#[derive(Debug)]
pub struct Place<O> {
    /// The queue in which it stands.
    pub queue: QueueName,
    /// How the service names it.
    pub id: ContenderId,
    /// How the caller names it.
    pub ticket: Ticket,
    /// The token of its grant.
    pub token: FencingToken,
    /// Whether it stays when the session ends.
    pub outlives_session: bool,
    /// When its join was answered.
    pub placed_at: BootInstant,
    /// What became of it.
    pub bond: PlaceBond,
    /// What the service keeps of it.
    pub own: O,
}

impl<O: Own> Place<O> {
    /// Notes that we are leaving it ourselves.
    pub(super) fn withdraw(&self) {
        self.bond.leave();
        self.own.withdrawn();
    }
}

/// What may be believed of one place: as much as of its session, while its contender is there.
pub(super) struct PlaceStanding<O>(pub(super) Arc<Place<O>>);

impl<O: Own> Standing for PlaceStanding<O> {
    fn liveness(&self, _at: LivenessAt) -> Liveness {
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

impl<O> fmt::Debug for PlaceStanding<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.0.id).finish()
    }
}
