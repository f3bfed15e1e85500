//! One of a session's own contenders, once it is stored, and what it grants: until when it may be believed, and what
//! ends it.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Liveness, LossReason, PlaceBond, QueueName, Revocation, SessionBond, Standing, Ticket,
};

/// A contender of ours that is stored.
pub trait Place: fmt::Debug + Send + Sync + 'static {
    /// Reads the ticket in the name of a contender; `None` if it is not one of ours.
    fn ticket_in(id: &ContenderId) -> Option<Ticket>;

    /// The queue in which it stands.
    fn queue(&self) -> &QueueName;

    /// How the service names it.
    fn id(&self) -> &ContenderId;

    /// How the caller names it.
    fn ticket(&self) -> Ticket;

    /// When its join was answered.
    fn placed_at(&self) -> BootInstant;

    /// What became of it.
    fn bond(&self) -> &PlaceBond;

    /// Whether it stays when the session ends.
    fn outlives_session(&self) -> bool;

    /// Notes that we are leaving it ourselves.
    fn withdraw(&self) {
        self.bond().leave();
    }
}

/// What may be believed of one place: as much as of its session, while its contender is there.
#[derive(Debug)]
pub struct PlaceStanding<P>(pub Arc<P>);

impl<P: Place> Standing for PlaceStanding<P> {
    fn bond(&self) -> &SessionBond {
        self.0.bond().session()
    }

    fn liveness(&self) -> Liveness {
        self.0.bond().liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let place = self.0.clone();
        Box::pin(async move { place.bond().lost().await })
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let place = self.0.clone();
        Box::pin(async move { place.bond().revoked().await })
    }
}
