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
pub(crate) struct EtcdSession {
    inner: Arc<Inner>,
}

impl EtcdSession {
    /// Takes a session for locks, and starts what watches its contenders.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let runtime = core.life.runtime.clone();
        let inner = Arc::new(Inner::new(core));
        runtime.spawn(guard::run(inner.clone()));
        Self { inner }
    }
}

impl Session for EtcdSession {
    fn bond(&self) -> &SessionBond {
        self.inner.core.life.bond()
    }

    fn timeout(&self) -> Option<SessionTimeout> {
        let asked = self.inner.core.config.session_timeout();
        Some(SessionTimeout { asked, granted: self.inner.core.timing.timeout })
    }

    fn view(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        let inner = self.inner.clone();
        if let Err(error) = inner.check(Operation::View, queue) {
            return refuse(error);
        }
        let around = match extent {
            Extent::Whole => None,
            Extent::Around(place) => Some(place.cloned()),
        };
        let name = queue.clone();
        self.inner.run_look(Operation::View, queue, async move {
            let extent = around.as_ref().map_or(Extent::Whole, |place| Extent::Around(place.as_ref()));
            let viewed = inner.view(&name, Operation::View, freshness, extent).await;
            viewed.map(|(_, view)| view).map_err(|failure| inner.fail(failure, Operation::View, false, &name))
        })
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
        request::begin(&self.inner, queue, contender, request)
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
            self.inner.core.depend_no_more();
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let core = self.inner.core.clone();
        core.life.bond().lose(LossReason::Closed);
        Box::pin(async move { core.life.closed().await })
    }
}

impl Drop for EtcdSession {
    fn drop(&mut self) {
        self.inner.core.life.bond().lose(LossReason::Closed);
    }
}

impl fmt::Debug for EtcdSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("EtcdSession").field(&self.inner).finish()
    }
}
