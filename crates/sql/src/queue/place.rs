//! One of our own contenders, once it is stored: where it stands. What became of it is in its bond.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{ContenderId, FencingToken, PlaceBond, QueueName, QueueView, Ticket};

use crate::queue::rows::{Stored, id_of, ticket_of};

/// A contender of ours that is stored.
pub(super) struct Place {
    pub(super) queue: QueueName,
    pub(super) id: ContenderId,
    pub(super) ticket: Ticket,
    pub(super) token: FencingToken,
    /// Whether it stays when the session ends.
    pub(super) outlives_session: bool,
    pub(super) placed_at: BootInstant,
    /// What became of it.
    pub(super) bond: PlaceBond,
    /// How many stood ahead of it when it was seen last.
    ahead: AtomicUsize,
}

impl Place {
    pub(super) fn new(
        queue: QueueName,
        stored: Stored,
        outlives_session: bool,
        placed_at: BootInstant,
        bond: PlaceBond,
    ) -> Self {
        let Stored { ticket, token } = stored;
        let (id, ahead) = (id_of(ticket), AtomicUsize::new(0));
        Self { queue, id, ticket, token, outlives_session, placed_at, bond, ahead }
    }

    /// Notes where it stands by a view that shows it.
    pub(super) fn note(&self, view: &QueueView) {
        if let Some(ahead) = view.ahead_of(&self.id) {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// How many stood ahead of it when it was seen last.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }
}

impl lockkeeper_session::Place for Place {
    fn ticket_in(id: &ContenderId) -> Option<Ticket> {
        ticket_of(id)
    }

    fn queue(&self) -> &QueueName {
        &self.queue
    }

    fn id(&self) -> &ContenderId {
        &self.id
    }

    fn ticket(&self) -> Ticket {
        self.ticket
    }

    fn placed_at(&self) -> BootInstant {
        self.placed_at
    }

    fn bond(&self) -> &PlaceBond {
        &self.bond
    }

    fn outlives_session(&self) -> bool {
        self.outlives_session
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Place").field(&self.id).finish()
    }
}
