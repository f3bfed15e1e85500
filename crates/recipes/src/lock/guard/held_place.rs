//! The held place of a guard: one in the service's queue, or a turn of a place that its process shares.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Session, Withdrawal};

use crate::contend::Place;
use crate::contend::local_queue::LocalGrant;
use crate::hold::grant::EndOfPlace;

/// A place in a queue that is held, or a turn of one; dropping it gives it back.
#[derive(Debug)]
pub(crate) enum HeldPlace {
    Place(Place),
    Local(LocalGrant),
}

impl HeldPlace {
    /// Returns the session under which the place was taken, for a place beside it. Then it is left when this is given
    /// back: no later turn may have what another contender of this process stands beside.
    pub(crate) fn anchor(&self) -> &Arc<dyn Session> {
        if let Some(end_of_place) = self.end_of_place() {
            end_of_place.note();
        }
        self.session()
    }

    /// Returns the session under which the place was taken.
    pub(crate) fn session(&self) -> &Arc<dyn Session> {
        match self {
            Self::Place(place) => place.session(),
            Self::Local(turn) => turn.session(),
        }
    }

    /// Returns what has the place of a turn left when the turn ends.
    pub(crate) fn end_of_place(&self) -> Option<EndOfPlace> {
        match self {
            Self::Place(_) => None,
            Self::Local(turn) => Some(turn.end_of_place()),
        }
    }

    /// Returns when it was granted, where that is known.
    pub(crate) fn granted_at(&self) -> Option<BootInstant> {
        match self {
            Self::Place(_) => None,
            Self::Local(turn) => Some(turn.granted_at()),
        }
    }

    /// Gives it back now, and returns the future that is ready when that is certain.
    pub(crate) fn leave(self, is_lost: bool, now: BootInstant) -> Withdrawal {
        match self {
            Self::Place(place) => place.leave(),
            Self::Local(turn) => turn.leave(is_lost, now),
        }
    }

    /// Returns a function that gives it back without owning it; doing so twice does nothing.
    pub(crate) fn release_fn(&self) -> Box<dyn FnOnce() + Send> {
        match self {
            Self::Place(place) => Box::new(place.release_fn()),
            Self::Local(turn) => Box::new(turn.release_fn()),
        }
    }
}

impl From<Place> for HeldPlace {
    fn from(place: Place) -> Self {
        Self::Place(place)
    }
}

impl From<LocalGrant> for HeldPlace {
    fn from(turn: LocalGrant) -> Self {
        Self::Local(turn)
    }
}
