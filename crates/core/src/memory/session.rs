//! The backend and its sessions: the waist over the service.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::admin::AdminBackend;
use crate::backend::{
    Backend, ENTRIES_MAX, Enqueued, Expected, Session, VALUE_BYTES_MAX, Value, ValueVersion, Values, Withdrawal,
};
use crate::capabilities::Capabilities;
use crate::contender::{ContenderId, ContenderInfo, Departure, Entry, Mode, Request, Ticket};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::future::BoxFuture;
use crate::memory::queue::{MemoryQueues, StoredContender};
use crate::memory::service::{CAPABILITIES, MemoryStore, ServiceState, ServiceWay, lost, refuse, unreachable};
use crate::memory::standing::MemoryStanding;
use crate::name::QueueName;
use crate::session_bond::SessionBond;
use crate::token::FencingToken;
use crate::view::{ConnectionNumber, Extent, Freshness, QueueView};

/// One client of a memory service.
#[derive(Debug)]
pub(super) struct MemoryBackend {
    service: MemoryStore,
    client: Mutex<MemoryClient>,
}

/// The state of one client, for the faults that tests inject.
#[derive(Debug, Default)]
pub(super) struct MemoryClient {
    /// The sessions that it opened and that may still live.
    pub(super) sessions: BTreeSet<u64>,
    /// Whether its connection to the service is cut, also for sessions yet to be opened.
    pub(super) cut: bool,
}

impl MemoryBackend {
    pub(super) fn new(service: MemoryStore) -> Self {
        Self { service, client: Mutex::default() }
    }

    pub(super) fn client(&self) -> MutexGuard<'_, MemoryClient> {
        self.client.lock()
    }

    /// Answers a request without a session.
    fn answer<T: Send + 'static>(
        &self,
        operation: Operation,
        look: impl FnOnce(&MemoryQueues) -> T,
    ) -> BoxFuture<Result<T>> {
        if self.client().cut {
            return refuse(unreachable(operation));
        }
        Box::pin(std::future::ready(Ok(look(&self.service.state().queues))))
    }
}

impl Backend for MemoryBackend {
    fn service(&self) -> String {
        "memory:".to_owned()
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>> {
        let mut client = self.client();
        if client.cut {
            return refuse(unreachable(Operation::Connect));
        }
        let (number, bond) = self.service.open_session();
        client.sessions.insert(number);
        let session: Arc<dyn Session> = Arc::new(MemorySession { service: self.service.clone(), number, bond });
        Box::pin(std::future::ready(Ok(session)))
    }

    fn admin(&self) -> &dyn AdminBackend {
        self
    }

    fn trouble(&self) -> Option<Error> {
        self.client().cut.then(|| unreachable(Operation::Connect))
    }
}

impl AdminBackend for MemoryBackend {
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        self.answer(Operation::Inspect, |queues| queues.inspect(queue))
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.answer(Operation::Inspect, |queues| queues.names(prefix))
    }
}

#[derive(Debug)]
struct MemorySession {
    service: MemoryStore,
    number: u64,
    bond: SessionBond,
}

impl Session for MemorySession {
    fn bond(&self) -> &SessionBond {
        &self.bond
    }

    /// It shows no more than it must, so that every recipe is tried with views that leave contenders out.
    fn view(&self, queue: &QueueName, _freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>> {
        let queue = queue.clone();
        let around = match extent {
            Extent::Whole => None,
            Extent::Around(place) => Some(place.cloned()),
        };
        self.service.request(self.number, Operation::View, move |state, connection| {
            let view = state.queues.view(&queue, connection);
            Ok(match around {
                None => view,
                Some(place) => view.around(place.as_ref()),
            })
        })
    }

    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        if entries.len() > ENTRIES_MAX {
            return refuse(limit(Operation::Join, format!("one call may take at most {ENTRIES_MAX} places")));
        }
        let (queue, session) = (queue.clone(), self.number);
        let (bond, since_unix) = (self.bond.clone(), self.service.clock().unix_time());
        self.service.request(session, Operation::Join, move |state, connection| {
            state.queues.check(&queue, &entries, session)?;
            let join = |entry| {
                let standing = MemoryStanding::new(bond.clone());
                Placed::of(state.queues.join(&queue, entry, session, since_unix, standing))
            };
            let places: Vec<_> = entries.into_iter().map(join).collect();
            let view = state.queues.view(&queue, connection);
            Ok(places.into_iter().map(|place| place.shown(view.clone())).collect())
        })
    }

    /// Does as [`Session::enqueue`] of one, without lists of one.
    fn enqueue_one(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        let (queue, session) = (queue.clone(), self.number);
        let since_unix = self.service.clock().unix_time();
        let standing = MemoryStanding::new(self.bond.clone());
        self.service.request(session, Operation::Join, move |state, connection| {
            state.queues.check(&queue, std::slice::from_ref(&entry), session)?;
            let place = Placed::of(state.queues.join(&queue, entry, session, since_unix, standing));
            Ok(place.shown(state.queues.view(&queue, connection)))
        })
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>> {
        let (queue, mine, ahead) = (queue.clone(), mine.cloned(), ahead.clone());
        let bond = self.bond.clone();
        let watches = self.service.request(self.number, Operation::Wait, {
            let number = self.number;
            move |state, _| {
                let way = state.links.get(&number).map(|link| link.watch());
                let mine = mine.map(|mine| state.queues.find(&queue, &mine).map(StoredContender::standing));
                Ok((state.queues.find(&queue, &ahead).map(StoredContender::standing), mine, way))
            }
        });
        Box::pin(async move {
            let (ahead, mine, way) = watches.await?;
            let Some(way) = way.filter(|way| way.borrow().connection == seen.0) else {
                return Ok(Departure::Recheck);
            };
            match ahead {
                None => Ok(Departure::Gone),
                Some(ahead) => departure_of(&bond, way, seen, ahead, departed(mine)).await,
            }
        })
    }

    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        let (queue, watched, seen) = (queue.clone(), queue.clone(), seen.clone());
        let look = move |state: &mut ServiceState, connection| state.queues.view(&queue, connection);
        self.until(&watched, Operation::Wait, look, move |view: &QueueView| {
            view.connection != seen.connection || view.contenders != seen.contenders || view.elsewhere != seen.elsewhere
        })
    }

    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        let (queue, contender) = (queue.clone(), contender.clone());
        self.service.request(self.number, Operation::Request, move |state, _| {
            Ok(state.queues.request(&queue, &contender, request))
        })
    }

    fn values(&self) -> &dyn Values {
        self
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        self.service.withdraw(self.number, queue, ticket)
    }

    /// An entry costs its session nothing here.
    fn keep(&self, _queue: &QueueName, _ticket: Ticket) {}

    fn close(&self) -> BoxFuture<Result<()>> {
        self.service.hang_up(self.number);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Values for MemorySession {
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        let queue = queue.clone();
        self.service
            .request(self.number, Operation::Value, move |state, _| Ok(state.queues.values.get(&queue).cloned()))
    }

    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        if value.as_ref().is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return refuse(limit(Operation::Value, format!("a value has at most {VALUE_BYTES_MAX} bytes")));
        }
        let queue = queue.clone();
        self.service.request(self.number, Operation::Value, move |state, _| {
            let written = state.queues.values.set(&queue, expected, value);
            state.queues.wake(&queue);
            Ok(written)
        })
    }

    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        let (queue, watched) = (queue.clone(), queue.clone());
        let look = move |state: &mut ServiceState, _| state.queues.values.get(&queue).cloned();
        self.until(&watched, Operation::Wait, look, move |value: &Option<Value>| {
            value.as_ref().map(|value| value.version) != seen
        })
    }
}

impl MemorySession {
    /// Looks again at each change of this lock until `is_awaited` is true of the result, or the connection was cut
    /// meanwhile.
    fn until<T: Send + 'static>(
        &self,
        watched: &QueueName,
        operation: Operation,
        look: impl Fn(&mut ServiceState, ConnectionNumber) -> T + Clone + Send + 'static,
        is_awaited: impl Fn(&T) -> bool + Send + 'static,
    ) -> BoxFuture<Result<T>> {
        let (service, number, bond) = (self.service.clone(), self.number, self.bond.clone());
        let watched = watched.clone();
        let ask = move || {
            let (look, watched) = (look.clone(), watched.clone());
            service.request(number, operation, move |state, connection| {
                let way = state.links.get(&number).map(|link| link.watch());
                Ok((look(state, connection), state.queues.watch_changes(&watched), way, connection))
            })
        };
        let first = ask();
        Box::pin(async move {
            let mut answer = first.await;
            loop {
                let (seen, mut change, way, connection) = answer?;
                let Some(mut way) = way.filter(|_| !is_awaited(&seen)) else {
                    return Ok(seen);
                };
                let is_cut = tokio::select! {
                    biased;
                    _ = bond.lost() => return Err(lost(operation)),
                    cut = way.wait_for(|way| !way.leads_back(connection)) => cut.is_ok(),
                    _ = change.changed() => false,
                };
                if !is_cut {
                    answer = ask().await;
                    continue;
                }
                tokio::select! {
                    biased;
                    _ = bond.lost() => return Err(lost(operation)),
                    _ = way.wait_for(|way| !way.cut) => {}
                }
                // Changes may have been missed, so the present result is returned in any case.
                return ask().await.map(|(seen, ..)| seen);
            }
        })
    }
}

fn limit(operation: Operation, message: String) -> Error {
    Error::permanent(ErrorKind::LimitReached, operation, message)
}

/// Waits for the event that ends a wait. Events while the connection is cut are not told; after it heals, the caller
/// looks again.
async fn departure_of(
    bond: &SessionBond,
    mut way: watch::Receiver<ServiceWay>,
    seen: ConnectionNumber,
    ahead: Arc<MemoryStanding>,
    mine: impl Future<Output = ()> + Send,
) -> Result<Departure> {
    tokio::select! {
        biased;
        _ = bond.lost() => return Err(lost(Operation::Wait)),
        _ = way.wait_for(|way| !way.leads_back(seen)) => {}
        _ = ahead.departed() => return Ok(Departure::Gone),
        () = mine => return Ok(Departure::Recheck),
    }
    tokio::select! {
        biased;
        _ = bond.lost() => Err(lost(Operation::Wait)),
        _ = way.wait_for(|way| !way.cut) => Ok(Departure::Recheck),
    }
}

/// Waits for the departure of our own contender: at once if it is gone already, without end for an onlooker.
async fn departed(mine: Option<Option<Arc<MemoryStanding>>>) {
    match mine {
        None => std::future::pending().await,
        Some(None) => {}
        Some(Some(mine)) => drop(mine.departed().await),
    }
}

/// A place that was taken, before the queue is shown with it.
struct Placed {
    id: ContenderId,
    token: FencingToken,
    mode: Mode,
    standing: Arc<MemoryStanding>,
}

impl Placed {
    fn of(stored: &StoredContender) -> Self {
        Self { id: stored.id.clone(), token: stored.token, mode: stored.mode, standing: stored.standing() }
    }

    /// Shows it the queue, and no more of it than it must.
    fn shown(self, view: QueueView) -> Enqueued {
        let Self { id, token, mode, standing } = self;
        let view = if mode.is_counted() { view } else { view.around(Some(&id)) };
        Enqueued { id, token, view, standing }
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.service.hang_up(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;
    use crate::contender::{Mode, Owner, Rank};

    #[tokio::test]
    async fn entries_of_which_one_cannot_stand_where_it_asks_to_are_refused_together_and_leave_no_queue_behind() {
        let (backend, _) = MemoryStore::new(Arc::new(TestClock::new())).client();
        let session = backend.session().await.unwrap();
        let queue = QueueName::new("book").unwrap();
        let entry = || Entry::new(Ticket::mint().unwrap(), Mode::Read, Arc::new(Owner::this_process()));
        let beside_absent = Entry { rank: Rank::With(ContenderId::new("absent")), ..entry() };
        let refused = session.enqueue(&queue, vec![entry(), beside_absent]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Removed);
        assert!(session.view(&queue, Freshness::Latest, Extent::Whole).await.unwrap().contenders.is_empty());
        assert!(backend.admin().queues("").await.unwrap().is_empty());
    }
}
