//! A place that was granted, and what its turns and its watch have of the grant.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, QueueView, Session, Standing, Ticket};

use crate::contend::Place;

/// A grant of the service, which all of its turns share.
#[derive(Debug)]
pub(super) struct Grant {
    /// Among all grants of the local queue.
    pub(super) number: u64,
    pub(super) id: ContenderId,
    pub(super) ticket: Ticket,
    pub(super) session: Arc<dyn Session>,
    /// The service's number in the tokens.
    pub(super) token: u64,
    pub(super) standing: Arc<dyn Standing>,
    pub(super) granted_at: BootInstant,
    /// The queue at the join, if no other contender was in it.
    pub(super) alone: Option<QueueView>,
}

/// A grant that only its first turn has used yet: mostly that is the only one, and then nothing of it is shared.
#[derive(Debug)]
pub(super) struct NewGrant {
    pub(super) number: u64,
    pub(super) id: ContenderId,
    pub(super) token: u64,
    pub(super) standing: Arc<dyn Standing>,
    pub(super) granted_at: BootInstant,
    pub(super) alone: Option<QueueView>,
}

/// A place that was granted. It is dropped when the local queue is not locked any more.
#[derive(Debug)]
pub(super) struct GrantedPlace {
    pub(super) place: Place,
    grant: Use,
}

/// What a grant is used for.
#[derive(Debug)]
enum Use {
    FirstTurn(NewGrant),
    /// Its watch and its turns.
    Shared(Arc<Grant>),
}

impl GrantedPlace {
    pub(super) const fn new(place: Place, grant: NewGrant) -> Self {
        Self { place, grant: Use::FirstTurn(grant) }
    }

    /// Returns the grant if it is shared already.
    pub(super) const fn shared(&self) -> Option<&Arc<Grant>> {
        match &self.grant {
            Use::FirstTurn(_) => None,
            Use::Shared(grant) => Some(grant),
        }
    }

    pub(super) fn number(&self) -> u64 {
        match &self.grant {
            Use::FirstTurn(grant) => grant.number,
            Use::Shared(grant) => grant.number,
        }
    }

    pub(super) fn token(&self) -> u64 {
        match &self.grant {
            Use::FirstTurn(grant) => grant.token,
            Use::Shared(grant) => grant.token,
        }
    }

    pub(super) fn granted_at(&self) -> BootInstant {
        match &self.grant {
            Use::FirstTurn(grant) => grant.granted_at,
            Use::Shared(grant) => grant.granted_at,
        }
    }

    /// Makes it one that is shared, if it is not.
    pub(super) fn into_shared(self) -> (Self, Arc<Grant>) {
        let Self { place, grant } = self;
        let grant = match grant {
            Use::Shared(grant) => grant,
            Use::FirstTurn(NewGrant { number, id, token, standing, granted_at, alone }) => {
                let (ticket, session) = (place.ticket(), place.session().clone());
                Arc::new(Grant { number, id, ticket, session, token, standing, granted_at, alone })
            }
        };
        (Self { place, grant: Use::Shared(grant.clone()) }, grant)
    }
}
