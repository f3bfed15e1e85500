//! Queues of contenders as locks see them, over one session: the waist of `lockkeeper-core`, on each service whose
//! calls go out in order over one connection after the other. The waist's methods stand here.
//!
//! - `service`: what a service must be able to do for it. `queues`: what the calls share. `entries`: our own
//!   contenders. `young`: those that are not watched yet.
//! - `join`, `leave`, `waits`: the calls that take more than one request.
//!
//! How a queue lies in a service, and how its answers read, the backend knows; which contender may go, the recipes.

mod entries;
mod join;
mod leave;
mod queues;
mod service;
mod waits;
mod young;

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, Enqueued, Entry, Error, ErrorKind, Expected, Extent,
    Freshness, LossReason, Operation, QueueName, QueueView, Request, Result, Session, SessionBond, SessionTimeout,
    Ticket, VALUE_BYTES_MAX, Value, ValueVersion, Values, Withdrawal,
};

use crate::{Failure, refuse};

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
