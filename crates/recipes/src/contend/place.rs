//! The place in a queue that is withdrawn when its guard is dropped, and the eviction of an idle holder.
//!
//! A place is armed before the join is sent, so that a future dropped at any point leaves no contender behind. A call
//! without a wait looks and takes no place in line. A process that keeps an idle place hears of joins alone, so such a
//! call leaves a join behind, which stands until the place is given up, for a short time at most.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    BoxFuture, ContenderId, Enqueued, Home, QueueName, QueueView, Result, Session, Ticket, Withdrawal,
};

use crate::hold::Grant;
use crate::shared::Shared;

/// A ticket that was, or is about to be, sent: dropping it withdraws it.
#[derive(Debug)]
pub(crate) struct ArmedPlace {
    pub(super) session: Arc<dyn Session>,
    queue: QueueName,
    ticket: Ticket,
    /// The process that has it. A fork of it leaves nothing.
    home: Home,
    /// Whether it is still to be withdrawn.
    is_armed: bool,
}

impl ArmedPlace {
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

impl Drop for ArmedPlace {
    fn drop(&mut self) {
        if self.is_armed {
            // It goes on in the background, and no caller is left to report to.
            drop(self.withdraw());
        }
    }
}

/// A place that was granted, or a turn of one.
#[derive(Debug)]
pub(crate) struct Granted<P = ArmedPlace> {
    pub(crate) place: P,
    pub(crate) grant: Grant,
}

impl Granted {
    /// Makes what the service has answered to a join, and returns the queue at that moment.
    pub(crate) fn answered(place: ArmedPlace, answer: Enqueued) -> (Self, QueueView) {
        let (ticket, Enqueued { id, token, view, standing }) = (place.ticket(), answer);
        (Self { place, grant: Grant { id, ticket, token, standing } }, view)
    }
}

/// How long the join stands at most: many times what a notice and a look take, and short for those that join behind it.
const STANDS_MAX: Duration = Duration::from_millis(100);

/// Evicts a holder that may be idle: leaves this join in the queue until that contender has left, without waiting for
/// either. Without a runtime the join is withdrawn at once, and the holder may not hear of it.
pub(super) fn evict_idle_holder(
    shared: &Shared,
    place: ArmedPlace,
    answer: BoxFuture<Result<Enqueued>>,
    kept: ContenderId,
) {
    let clock = shared.clock.clone();
    let ends_at = clock.now().saturating_add(STANDS_MAX);
    let stand = async move {
        let until_left = async {
            // The outcome of neither matters: the caller does not wait, and may call again.
            if let Ok(joined) = answer.await {
                let seen = joined.view.connection;
                let _ = place.session.departure(place.queue(), Some(&joined.id), &kept, seen).await;
            }
        };
        tokio::select! {
            () = until_left => {}
            () = clock.sleep_until(ends_at) => {}
        }
        drop(place);
    };
    shared.spawn_watch(false, Box::pin(stand));
}
