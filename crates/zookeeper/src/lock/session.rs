//! A session as locks see it: the waist's methods. What its parts share is in `session_core`; each of the larger
//! operations has its own file.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, ENTRIES_MAX, Enqueued, Entry, Error, ErrorKind, Expected,
    Extent, Freshness, Operation, QueueName, QueueView, Result, Session, SessionBond, Ticket, Value, ValueVersion,
    Values, Withdrawal,
};

use crate::client::Client;
use crate::config::Config;
use crate::lock::prover::Prover;
use crate::lock::session_core::{SessionCore, begun};
use crate::lock::shared_list;
use crate::lock::{join, request, value, waits, withdraw};

pub(super) struct ZooKeeperSession {
    /// Keeps the session alive.
    client: Client,
    inner: Arc<SessionCore>,
}

impl ZooKeeperSession {
    /// Takes a session for locks, and starts what proves it alive.
    pub(super) fn new(client: Client, config: &Config) -> Self {
        let inner = Arc::new(SessionCore::new(client.link().clone(), config));
        client.link().bond.set_timeout(client.link().timeouts());
        client.link().adopt(Box::pin(Prover::new(inner.clone()).run()));
        Self { client, inner }
    }
}

impl Session for ZooKeeperSession {
    fn bond(&self) -> &SessionBond {
        &self.inner.link.bond
    }

    /// After a departure without a sync: departures are told in the order in which they happened, no contender comes
    /// ahead of us, and a list that is too old shows a contender whose departure is told next.
    fn view(&self, queue: &QueueName, freshness: Freshness, _extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        let freshness = match freshness {
            Freshness::Latest => shared_list::ListFreshness::Synced,
            Freshness::AfterDeparture => shared_list::ListFreshness::Behind,
        };
        let (inner, queue) = (self.inner.clone(), queue.clone());
        let asked = inner.path_of(&queue).map(|path| (inner.send_list(&path, queue.part(), freshness), path));
        begun(asked.map(|(list, path)| async move {
            let listing = inner.look(&path, queue.part(), list).await;
            let listing = listing.map_err(|error| inner.fail(error, Operation::View, &queue))?;
            inner.outlived_view(&queue, &path, &listing, Operation::View).await
        }))
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        if entries.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        if entries.len() > ENTRIES_MAX {
            let message = format!("at most {ENTRIES_MAX} entries per call");
            let error = Error::permanent(ErrorKind::LimitReached, Operation::Join, message).at(queue);
            return Box::pin(std::future::ready(Err(error)));
        }
        begun(join::QueueJoin::begin(self.inner.clone(), queue, &entries).map(|(join, sent)| join.finish(sent)))
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        begun(waits::DepartureWait::begin(self.inner.clone(), queue, mine, ahead, seen))
    }

    fn hears_of(&self, contender: &ContenderId) -> bool {
        self.inner.own_place(contender).is_some()
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        begun(waits::queue_changed(self.inner.clone(), queue, seen))
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: lockkeeper_core::Request,
    ) -> BoxFuture<Result<bool>> {
        begun(request::begin(&self.inner, queue, contender, request))
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        withdraw::begin(&self.inner, queue, ticket)
    }

    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let was_standing = self.inner.places().keep(queue, ticket);
        if was_standing {
            self.inner.link.remove_dependent();
        }
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let closing = self.client.close();
        Box::pin(async move { closing.await.map_err(|error| error.into_core(Operation::Close, None)) })
    }
}

impl Values for ZooKeeperSession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        begun(value::read(&self.inner, queue))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        begun(value::write(&self.inner, queue, expected, value))
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        begun(waits::value_changed(self.inner.clone(), queue, seen))
    }
}

impl fmt::Debug for ZooKeeperSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ZooKeeperSession").field(&self.client).finish()
    }
}
