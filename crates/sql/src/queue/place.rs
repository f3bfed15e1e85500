//! The place of one of our own contenders in a database: its ticket is its name, and a look shows where it stands.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_core::{ContenderId, Ticket};

/// A contender of ours that is stored.
pub(super) type Place = lockkeeper_session::Place<Own>;

/// What is kept of it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// How many stood ahead of it when it was seen last.
    ahead: AtomicUsize,
}

impl Own {
    /// Notes how many stand ahead of it, if a look has shown it.
    pub(super) fn note(&self, ahead: Option<usize>) {
        if let Some(ahead) = ahead {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// How many stood ahead of it when it was seen last.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }
}

impl lockkeeper_session::Own for Own {}

/// How a contender is named.
pub(super) fn id_of(ticket: Ticket) -> ContenderId {
    ContenderId::new(ticket.to_string())
}

/// Reads the name of a contender of ours.
pub(super) fn ticket_of(id: &ContenderId) -> Option<Ticket> {
    Ticket::parse(id.as_str())
}
