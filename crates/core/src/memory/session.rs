//! The backend and its sessions: the waist, spoken to the service.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::contender::{ContenderId, ContenderInfo, Departure, Enqueued, Entry, QueueView, Ticket, Version};
use crate::memory::service::{CAPABILITIES, MemoryService, lost};
use crate::{
    Backend, BoxFuture, Capabilities, Liveness, LossReason, Operation, QueueName, Result, Session, SessionBond,
    Standing, Withdrawal,
};

/// One client of a memory service.
#[derive(Debug)]
pub(super) struct MemoryBackend {
    service: MemoryService,
    /// The sessions that this client opened and that may still live.
    sessions: Arc<Mutex<BTreeSet<u64>>>,
}

impl MemoryBackend {
    pub(super) fn new(service: MemoryService) -> Self {
        Self { service, sessions: Arc::default() }
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (number, bond) = self.service.open_session();
        self.sessions().insert(number);
        let session: Arc<dyn Session> = Arc::new(MemorySession { service: self.service.clone(), number, bond });
        Box::pin(std::future::ready(Ok(session)))
    }

    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let contenders = self.service.state().queues.inspect(queue);
        Box::pin(std::future::ready(Ok(contenders)))
    }

    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let names = self.service.state().queues.names(prefix);
        Box::pin(std::future::ready(Ok(names)))
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
                let connection = state.links.get(&number).map(|link| link.connection.subscribe());
                let mine = mine.map(|mine| state.queues.find(&queue, &mine).map(super::queue::Stored::watch));
                (state.queues.find(&queue, &ahead).map(super::queue::Stored::watch), mine, connection)
            }
        });
        Box::pin(async move {
            let (ahead, mine, connection) = watches.await?;
            let Some(mut connection) = connection.filter(|connection| *connection.borrow() == seen.0) else {
                return Ok(Departure::Recheck);
            };
            let Some(mut ahead) = ahead else {
                return Ok(Departure::Gone);
            };
            tokio::select! {
                biased;
                _ = bond.lost() => Err(lost(Operation::Wait)),
                _ = connection.changed() => Ok(Departure::Recheck),
                _ = ahead.wait_for(|&departed| departed) => Ok(Departure::Gone),
                () = departed(mine) => Ok(Departure::Recheck),
            }
        })
    }

    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal {
        let queue = queue.clone();
        self.service.owe(self.number, move |state| state.queues.remove(&queue, ticket));
        Withdrawal::done(Ok(()))
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.service.end_session(self.number, LossReason::Closed);
        Box::pin(std::future::ready(Ok(())))
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
        self.service.end_session(self.number, LossReason::Closed);
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
