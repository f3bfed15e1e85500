//! A ticket that is withdrawn when it is dropped.
//!
//! It is armed before the join is sent, so that a future dropped at any point leaves no contender behind.

use std::sync::Arc;

use lockkeeper_core::{Enqueued, Home, QueueName, QueueView, Session, Ticket, Withdrawal};

use crate::hold::grant::Grant;
use crate::shared::Shared;

/// A ticket that was, or is about to be, sent: dropping it withdraws it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) session: Arc<dyn Session>,
    queue: QueueName,
    ticket: Ticket,
    /// The process that has it. A fork of it leaves nothing.
    home: Home,
    /// Whether it is still to be withdrawn.
    is_armed: bool,
}

impl Place {
    pub(crate) fn arm(shared: &Shared, session: Arc<dyn Session>, queue: QueueName, ticket: Ticket) -> Self {
        Self { session, queue, ticket, home: shared.home, is_armed: true }
    }

    /// Returns its ticket.
    pub(crate) const fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) const fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Returns the session under which it was taken.
    pub(crate) fn session(&self) -> &Arc<dyn Session> {
        &self.session
    }

    /// Leaves the queue, and returns the future that is ready when that is certain.
    pub(crate) fn leave(mut self) -> Withdrawal {
        self.is_armed = false;
        self.withdraw()
    }

    /// Returns a function that leaves the queue without owning the place; leaving twice does nothing.
    pub(crate) fn release_fn(&self) -> impl FnOnce() + Send + 'static {
        let Self { session, queue, ticket, home, .. } = self;
        let (session, queue, ticket, home) = (session.clone(), queue.clone(), *ticket, *home);
        move || {
            if !home.is_left() {
                drop(session.withdraw(&queue, ticket));
            }
        }
    }

    /// Leaves the contender where it is and stops tracking it.
    pub(crate) fn keep(mut self) {
        self.is_armed = false;
        self.session.keep(&self.queue, self.ticket);
    }

    fn withdraw(&self) -> Withdrawal {
        if self.home.is_left() {
            return Withdrawal::done(Ok(()));
        }
        self.session.withdraw(&self.queue, self.ticket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_armed {
            // It goes on in the background, and no caller is left to report to.
            drop(self.withdraw());
        }
    }
}

/// A place that was granted, or a turn of one.
#[derive(Debug)]
pub(crate) struct Granted<P = Place> {
    pub(crate) place: P,
    pub(crate) grant: Grant,
}

impl Granted {
    /// Makes what the service has answered to a join, and returns the queue at that moment.
    pub(crate) fn answered(place: Place, answer: Enqueued) -> (Self, QueueView) {
        let (ticket, Enqueued { id, token, view, standing }) = (place.ticket(), answer);
        (Self { place, grant: Grant { id, ticket, token, standing } }, view)
    }
}
