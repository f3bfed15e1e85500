//! Knowledge that the calls of one session share: which of our own contenders stand, and why one is gone.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Entry, Error, Extent, Freshness, LossReason, Operation, QueueName, QueueView, Result,
    Ticket,
};
use parking_lot::Mutex;

use crate::queue::entries::{Coverage, Place};
use crate::queue::service::{Left, Queues, Service, Stage};
use crate::{Ask, Failure, News, OwnContenders};

impl<S: Service> Queues<S> {
    pub(super) fn new(service: S) -> Self {
        Self { service, entries: Mutex::default() }
    }

    /// Finds the place of a contender of ours.
    pub fn place_of(&self, queue: &QueueName, id: &ContenderId) -> Option<Arc<Place<S::Own>>> {
        self.entries.lock().find(queue, id).cloned()
    }

    /// Finds the place of a ticket.
    pub fn of_ticket(&self, ticket: Ticket) -> Option<Arc<Place<S::Own>>> {
        self.entries.lock().of_ticket(ticket).cloned()
    }

    /// Returns the places of all contenders of ours that stand, for all that is known.
    pub fn standing(&self) -> Vec<Arc<Place<S::Own>>> {
        self.entries.lock().standing()
    }

    /// Refuses a call for what the service cannot have, or under a session that is lost.
    pub(super) fn check(&self, operation: Operation, queue: &QueueName, entries: &[Entry]) -> Result<()> {
        if let Some((kind, why)) = self.service.refusal(queue, entries) {
            return Err(Error::permanent(kind, operation, why).at(queue));
        }
        self.service.life().check(operation).map_err(|error| error.at(queue))
    }

    pub(super) fn fail(&self, failure: Failure, operation: Operation, is_write: bool, queue: &QueueName) -> Error {
        self.service.life().fail(failure, operation, is_write).at(queue)
    }

    pub(super) fn over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.service.life().over(operation).at(queue)
    }

    /// Looks at a queue, now.
    pub(super) fn view(
        self: &Arc<Self>,
        queue: &QueueName,
        freshness: Freshness,
        extent: Extent<'_>,
    ) -> BoxFuture<Result<QueueView, Failure>> {
        let coverage = Coverage::of(extent);
        let life = self.service.life();
        let asked_at = life.clock.now();
        let looking = life.look(self.service.look(queue, freshness, extent));
        let (queues, queue) = (self.clone(), queue.clone());
        Box::pin(async move {
            let view = looking.await?;
            if let Coverage::One(mine) = &coverage
                && let Some(place) = queues.place_of(&queue, mine)
            {
                S::note(&queues, Stage::Shown(&place, &view));
            }
            queues.settle(&queue, &view, &coverage, asked_at).await;
            Ok(view)
        })
    }

    /// Notes which of our own contenders are gone by a view, and waits until it is known why.
    pub(super) async fn settle(
        self: &Arc<Self>,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) {
        self.note_missing(queue, view, coverage, asked_at);
        let unexplained = self.entries.lock().unexplained(queue);
        for place in unexplained {
            place.bond.explained().await;
        }
    }

    /// Notes which of our own contenders are gone by a view that was asked for at this moment, so that no other caller
    /// of this process is granted their place before their own callers know.
    pub(super) fn note_missing(
        self: &Arc<Self>,
        queue: &QueueName,
        view: &QueueView,
        coverage: &Coverage,
        asked_at: BootInstant,
    ) {
        let missing = self.entries.lock().missing(queue, view, coverage, asked_at);
        for place in missing {
            self.found_gone(&place);
        }
    }

    /// Whether an entry of ours was not withdrawn: a join that waits in a line is of no use once one was.
    pub fn wants(&self, ticket: Ticket) -> bool {
        self.entries.lock().has(ticket)
    }

    /// Takes in what is heard of our own contenders, until the session is over.
    pub async fn hear_of<W: Clone>(self: &Arc<Self>, contenders: &OwnContenders<W>) {
        let mut told = contenders.told();
        let hearing = async {
            while let Some(news) = told.recv().await {
                self.hear(news);
            }
        };
        tokio::select! {
            biased;
            _ = self.service.life().ended() => {}
            () = hearing => {}
        }
    }

    /// Notes what was heard of a contender of ours. Why it is gone is asked when it leaves what is left of it.
    fn hear(self: &Arc<Self>, news: News) {
        let place = |ticket| self.of_ticket(ticket);
        match news {
            News::Missing(ticket) | News::Broken(ticket) => {
                if let Some(place) = place(ticket) {
                    self.found_gone(&place);
                }
            }
            News::Asked(ticket, ask) => {
                if let (Some(place), Some(revocation)) = (place(ticket), Ask::read(&ask)) {
                    place.bond.revoke(revocation);
                }
            }
        }
    }

    /// Notes that a contender of ours is gone, and finds out why.
    pub fn found_gone(self: &Arc<Self>, place: &Arc<Place<S::Own>>) {
        if place.bond.remove() {
            self.service.life().runtime.spawn(explain(self.clone(), place.clone()));
        }
    }
}

async fn explain<S: Service>(queues: Arc<Queues<S>>, place: Arc<Place<S::Own>>) {
    let life = queues.service.life();
    let reason = tokio::select! {
        biased;
        reason = life.bond().lost() => reason,
        reason = find_out(&queues.service, &place) => reason,
    };
    S::note(&queues, Stage::Gone(place.ticket));
    if reason == LossReason::Expired {
        life.expire();
    }
    place.bond.explain(reason);
    if life.check(Operation::Wait).is_ok() {
        life.testing.note_removal();
    }
}

/// Removes what is left of a contender of ours, and asks why it is gone: it was broken, it went with its session, or it
/// was removed.
async fn find_out<S: Service>(service: &S, place: &Place<S::Own>) -> LossReason {
    let life = service.life();
    let mut call = life.call(service.leave(&place.queue, place.ticket, Some(&place.id), true));
    loop {
        let failure = match call.answer().await {
            Ok(Left::Gone(reason)) => return reason,
            // It was there in part: that was deleted by hand.
            Ok(Left::Removed | Left::RemovedUnproven | Left::Absent) => return LossReason::Removed,
            Err(failure) => failure,
        };
        if !failure.is_passing() {
            tracing::debug!(target: "lockkeeper", %failure, "the service does not say why a contender is gone");
            // If the session stands after that, at least the contender did not go with it.
            return life.until_proven_anew().await.err().unwrap_or(LossReason::Removed);
        }
        life.again(&mut call, &failure).await;
    }
}

impl<S: Service> fmt::Debug for Queues<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Queues").field(self.service.life()).finish()
    }
}
