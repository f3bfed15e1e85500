//! A session as locks see it: the waist's methods. Each of the larger ones has its own file.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, Enqueued, Entry, Expected, Extent, Freshness, LossReason,
    Operation, QueueName, QueueView, Request, Result, Session, SessionBond, SessionTimeout, Ticket, Value,
    ValueVersion, Withdrawal,
};
use lockkeeper_session::refuse;

use crate::queue::departure::Wait;
use crate::queue::inner::Inner;
use crate::queue::{change, guard, join, request, value, withdraw};
use crate::session::Core;

/// One session of a keeper. Dropping it ends it.
pub(crate) struct RedisSession {
    inner: Arc<Inner>,
}

impl RedisSession {
    /// Takes a session for locks.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let runtime = core.life.runtime.clone();
        let inner = Arc::new(Inner::new(core));
        runtime.spawn(guard::run(inner.clone()));
        Self { inner }
    }
}

impl Session for RedisSession {
    fn bond(&self) -> &SessionBond {
        self.inner.core.life.bond()
    }

    fn timeout(&self) -> Option<SessionTimeout> {
        let timeout = self.inner.core.timing.timeout;
        Some(SessionTimeout { asked: timeout, granted: timeout })
    }

    fn view(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        if let Err(error) = self.inner.check(Operation::View, queue) {
            return refuse(error);
        }
        let viewing = self.inner.view(queue, Operation::View, extent);
        let (inner, queue) = (self.inner.clone(), queue.clone());
        Box::pin(async move { viewing.await.map_err(|failure| inner.fail(failure, Operation::View, false, &queue)) })
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        join::begin(&self.inner, queue, &entries)
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        Box::pin(Wait::begin(&self.inner, queue, mine, ahead, seen).finish())
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        change::of_queue(&self.inner, queue, seen)
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        request::begin(&self.inner, queue, contender, &request)
    }

    fn value(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        value::read(&self.inner, queue)
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        value::write(&self.inner, queue, expected, value)
    }

    fn value_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        change::of_value(&self.inner, queue, seen)
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        withdraw::begin(&self.inner, queue, ticket)
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let was_there = self.inner.entries().keep(queue, ticket);
        if was_there {
            self.inner.core.roll.remove(ticket);
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let core = self.inner.core.clone();
        core.life.bond().lose(LossReason::Closed);
        Box::pin(async move { core.life.closed().await })
    }
}

impl Drop for RedisSession {
    fn drop(&mut self) {
        self.inner.core.life.bond().lose(LossReason::Closed);
    }
}

impl fmt::Debug for RedisSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RedisSession").field(&self.inner).finish()
    }
}
