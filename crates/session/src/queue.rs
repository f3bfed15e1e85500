//! Queues of contenders as locks see them, over one session: the waist of `lockkeeper-core`, on each service whose
//! calls go out in order over one connection after the other. The waist's methods stand here, and what its calls share:
//! which of our own contenders stand, and why one is gone.
//!
//! - `service`: what a service must be able to do for it. `entries`: our own contenders. `young`: those that are not
//!   watched yet.
//! - `join`, `leave`, `waits`: the calls that take more than one request.
//!
//! How a queue lies in a service, and how its answers read, the backend knows; which contender may go, the recipes.

mod entries;
mod join;
mod leave;
mod service;
mod waits;
mod young;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, Enqueued, Entry, Error, ErrorKind, Expected, Extent,
    Freshness, LossReason, Operation, QueueName, QueueView, Request, Result, Session, SessionBond, SessionTimeout,
    Ticket, VALUE_BYTES_MAX, Value, ValueVersion, Values, Withdrawal,
};
use parking_lot::Mutex;

use crate::queue::entries::Coverage;
use crate::{Ask, Failure, News, OwnContenders, refuse};

pub use entries::{Own, Place};
pub use service::{
    Departing, Joined, Left, Queues, Refusal, Service, Stage, Stood, Stored, Watch, anchor, outlives_session,
};
pub use young::{WATCH_AFTER, Young};

/// One session of a keeper. Dropping it ends it.
pub struct QueueSession<S: Service> {
    queues: Arc<Queues<S>>,
}

impl<S: Service> QueueSession<S> {
    /// Takes a session for locks. `listen` hears what becomes of our own contenders, until the session is over.
    pub fn new<F>(service: S, listen: impl FnOnce(Arc<Queues<S>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let queues = Arc::new(Queues::new(service));
        let life = queues.service.life();
        life.bond().set_timeout(SessionTimeout { asked: life.asked, granted: life.timeout });
        life.runtime.spawn(listen(queues.clone()));
        Self { queues }
    }

    /// Asks, and waits for the answer, whose failure is one of this operation.
    fn ask<T: Send + 'static>(
        &self,
        operation: Operation,
        is_write: bool,
        queue: &QueueName,
        ask: impl FnOnce(&Arc<Queues<S>>) -> BoxFuture<Result<T, Failure>>,
    ) -> BoxFuture<Result<T>> {
        if let Err(error) = self.queues.check(operation, queue, &[]) {
            return refuse(error);
        }
        let (asking, queues, queue) = (ask(&self.queues), self.queues.clone(), queue.clone());
        Box::pin(async move { asking.await.map_err(|failure| queues.fail(failure, operation, is_write, &queue)) })
    }
}

impl<S: Service> Session for QueueSession<S> {
    fn bond(&self) -> &SessionBond {
        self.queues.service.life().bond()
    }

    fn outwait_dead(&self, queue: &QueueName) -> BoxFuture<bool> {
        S::outwait_dead(&self.queues, queue)
    }

    fn view(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        self.ask(Operation::View, false, queue, |queues| queues.view(queue, freshness, extent))
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        join::begin(&self.queues, queue, &entries)
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        waits::of_departure(&self.queues, queue, mine, ahead, seen)
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        waits::of_queue(&self.queues, queue, seen)
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        if let Err(error) = self.queues.check(Operation::Request, queue, &[]) {
            return refuse(error);
        }
        match self.queues.service.request(queue, contender, &request) {
            Ok(Some(make)) => self.ask(Operation::Request, true, queue, |queues| queues.service.life().write(make)),
            Ok(None) => Box::pin(std::future::ready(Ok(false))),
            Err((kind, why)) => refuse(Error::permanent(kind, Operation::Request, why).at(queue)),
        }
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        leave::begin(&self.queues, queue, ticket)
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let was_there = self.queues.entries.lock().keep(queue, ticket);
        if was_there {
            S::note(&self.queues, Stage::Kept(ticket));
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let life = self.queues.service.life().clone();
        life.bond().lose(LossReason::Closed);
        Box::pin(async move { life.closed().await })
    }
}

impl<S: Service> Values for QueueSession<S> {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        let ask = |queues: &Arc<Queues<S>>| queues.service.life().look(queues.service.value(queue));
        self.ask(Operation::Value, false, queue, ask)
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            let message = format!("a value has at most {VALUE_BYTES_MAX} bytes");
            return refuse(Error::permanent(ErrorKind::LimitReached, Operation::Value, message).at(queue));
        }
        self.ask(Operation::Value, true, queue, |queues| {
            queues.service.life().write(queues.service.set_value(queue, expected, value))
        })
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        waits::of_value(&self.queues, queue, seen)
    }
}

impl<S: Service> Drop for QueueSession<S> {
    fn drop(&mut self) {
        self.queues.service.life().bond().lose(LossReason::Closed);
    }
}

impl<S: Service> fmt::Debug for QueueSession<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("QueueSession").field(&self.queues).finish()
    }
}

impl<S: Service> Queues<S> {
    fn new(service: S) -> Self {
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
    fn check(&self, operation: Operation, queue: &QueueName, entries: &[Entry]) -> Result<()> {
        if let Some((kind, why)) = self.service.refusal(queue, entries) {
            return Err(Error::permanent(kind, operation, why).at(queue));
        }
        self.service.life().check(operation).map_err(|error| error.at(queue))
    }

    fn fail(&self, failure: Failure, operation: Operation, is_write: bool, queue: &QueueName) -> Error {
        self.service.life().fail(failure, operation, is_write).at(queue)
    }

    fn over(&self, operation: Operation, queue: &QueueName) -> Error {
        self.service.life().over(operation).at(queue)
    }

    /// Looks at a queue, now.
    fn view(
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
    async fn settle(self: &Arc<Self>, queue: &QueueName, view: &QueueView, coverage: &Coverage, asked_at: BootInstant) {
        self.note_missing(queue, view, coverage, asked_at);
        let unexplained = self.entries.lock().unexplained(queue);
        for place in unexplained {
            place.bond.explained().await;
        }
    }

    /// Notes which of our own contenders are gone by a view that was asked for at this moment, so that no other caller
    /// of this process is granted their place before their own callers know.
    fn note_missing(self: &Arc<Self>, queue: &QueueName, view: &QueueView, coverage: &Coverage, asked_at: BootInstant) {
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
