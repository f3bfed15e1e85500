//! The backend and its sessions: the waist, spoken to the service.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::contender::{ContenderId, ContenderInfo, Departure, Enqueued, Entry, QueueView, Ticket, Version};
use crate::memory::queue::Queues;
use crate::memory::service::{CAPABILITIES, MemoryService, Way, lost, refuse, unreachable};
use crate::{
    Backend, BoxFuture, Capabilities, Liveness, LossReason, Operation, QueueName, Result, Session, SessionBond,
    Standing, Withdrawal,
};

/// One client of a memory service.
#[derive(Debug)]
pub(super) struct MemoryBackend {
    service: MemoryService,
    client: Mutex<Client>,
}

/// What a client's tests do to all that is its own.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The sessions that it opened and that may still live.
    pub(super) sessions: BTreeSet<u64>,
    /// Whether its way to the service is cut, also for sessions yet to be opened.
    pub(super) cut: bool,
}

impl MemoryBackend {
    pub(super) fn new(service: MemoryService) -> Self {
        Self { service, client: Mutex::default() }
    }

    pub(super) fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request without a session.
    fn answer<T: Send + 'static>(&self, operation: Operation, look: impl FnOnce(&Queues) -> T) -> BoxFuture<Result<T>> {
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

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        self.answer(Operation::Inspect, |queues| queues.inspect(queue))
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        self.answer(Operation::Inspect, |queues| queues.names(prefix))
    }
}

#[derive(Debug)]
struct MemorySession {
    service: MemoryService,
    number: u64,
    bond: SessionBond,
}

impl Session for MemorySession {
    fn bond(&self) -> &SessionBond {
        &self.bond
    }

    fn view(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>> {
        let queue = queue.clone();
        self.service.request(self.number, Operation::View, move |state, version| state.queues.view(&queue, version))
    }

    fn enqueue(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        let (queue, session, bond) = (queue.clone(), self.number, self.bond.clone());
        let since_unix = self.service.clock().unix_time();
        self.service.request(session, Operation::Join, move |state, version| {
            let stored = state.queues.join(&queue, entry, session, since_unix);
            let (id, token) = (stored.id.clone(), stored.token);
            let standing = Arc::new(MemoryStanding { bond, departed: stored.watch() });
            Enqueued { id, token, view: state.queues.view(&queue, version), standing }
        })
    }

    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: Version,
    ) -> BoxFuture<Result<Departure>> {
        let (queue, mine, ahead) = (queue.clone(), mine.cloned(), ahead.clone());
        let bond = self.bond.clone();
        let watches = self.service.request(self.number, Operation::Wait, {
            let number = self.number;
            move |state, _| {
                let way = state.links.get(&number).map(|link| link.way.subscribe());
                let mine = mine.map(|mine| state.queues.find(&queue, &mine).map(super::queue::Stored::watch));
                (state.queues.find(&queue, &ahead).map(super::queue::Stored::watch), mine, way)
            }
        });
        Box::pin(async move {
            let (ahead, mine, way) = watches.await?;
            let Some(way) = way.filter(|way| way.borrow().connection == seen.0) else {
                return Ok(Departure::Recheck);
            };
            match ahead {
                None => Ok(Departure::Gone),
                Some(ahead) => news(&bond, way, seen, ahead, departed(mine)).await,
            }
        })
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let queue = queue.clone();
        self.service.owe(self.number, move |state| state.queues.remove(&queue, ticket))
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.service.hang_up(self.number);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Waits for the news that ends a wait. What happens while the way is cut is not told; after healing it takes a new look.
async fn news(
    bond: &SessionBond,
    mut way: watch::Receiver<Way>,
    seen: Version,
    mut ahead: watch::Receiver<bool>,
    mine: impl Future<Output = ()> + Send,
) -> Result<Departure> {
    tokio::select! {
        biased;
        _ = bond.lost() => return Err(lost(Operation::Wait)),
        _ = way.wait_for(|way| !way.leads_back(seen)) => {}
        _ = ahead.wait_for(|&departed| departed) => return Ok(Departure::Gone),
        () = mine => return Ok(Departure::Recheck),
    }
    tokio::select! {
        biased;
        _ = bond.lost() => Err(lost(Operation::Wait)),
        _ = way.wait_for(|way| !way.cut) => Ok(Departure::Recheck),
    }
}

/// Waits for the departure of our own contender: at once if it is gone already, without end for an onlooker.
async fn departed(mine: Option<Option<watch::Receiver<bool>>>) {
    match mine {
        None => std::future::pending().await,
        Some(None) => {}
        Some(Some(mut mine)) => {
            let _ = mine.wait_for(|&departed| departed).await;
        }
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.service.hang_up(self.number);
    }
}

#[derive(Debug)]
struct MemoryStanding {
    bond: SessionBond,
    departed: watch::Receiver<bool>,
}

impl Standing for MemoryStanding {
    fn liveness(&self) -> Liveness {
        match self.bond.liveness() {
            lost @ Liveness::Lost(_) => lost,
            _ if *self.departed.borrow() => Liveness::Lost(LossReason::Removed),
            held => held,
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let (bond, mut departed) = (self.bond.clone(), self.departed.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                reason = bond.lost() => reason,
                _ = departed.wait_for(|&departed| departed) => LossReason::Removed,
            }
        })
    }
}
