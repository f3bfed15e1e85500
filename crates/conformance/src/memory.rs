//! The fixture of the memory backend: an example for other backends, and the base of the planted bugs.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_core::{Backend, BoxFuture, Error, ErrorKind, Operation, Result, SafeUntil};
use lockkeeper_recipes::memory::{MemoryService, Testing};
use parking_lot::Mutex;

use crate::fixture::{Client, Fault, FaultKind, Fixture};

/// How long a client that is cut off may believe its session: long enough for a case to heal it in time, also on a busy
/// machine.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// A separate memory service, with clients that share only this service.
#[derive(Debug)]
pub struct MemoryFixture {
    service: MemoryService,
    clients: Arc<Mutex<Vec<Testing>>>,
}

impl MemoryFixture {
    /// Starts a service without queues.
    pub fn start() -> Self {
        Self { service: MemoryService::new(Arc::new(SystemClock)), clients: Arc::default() }
    }
}

impl Fixture for MemoryFixture {
    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        let (backend, testing) = self.service.client();
        let mut clients = self.clients.lock();
        clients.push(testing.clone());
        let client: Arc<dyn Client> = Arc::new(MemoryClient { backend, testing, clients: self.clients.clone() });
        Box::pin(std::future::ready(Ok(client)))
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        kind != FaultKind::Wipe
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(SESSION_TIMEOUT)
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let (backend, _) = self.service.client();
        Box::pin(async move {
            let mut leftovers = Vec::new();
            for queue in backend.admin().queues("").await? {
                let contenders = backend.admin().inspect(&queue).await?.len();
                leftovers.push(format!("{contenders} in {queue}"));
            }
            Ok(leftovers)
        })
    }
}

#[derive(Debug)]
struct MemoryClient {
    backend: Arc<dyn Backend>,
    testing: Testing,
    clients: Arc<Mutex<Vec<Testing>>>,
}

impl Client for MemoryClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        let mut done = Ok(());
        match fault {
            Fault::ExpireSession => self.testing.expire_session(),
            Fault::Cut => {
                let safe_until = SystemClock.now().saturating_add(SESSION_TIMEOUT);
                self.testing.cut(SafeUntil::At(safe_until));
            }
            Fault::Heal => self.testing.heal(),
            Fault::Pause => self.testing.pause(),
            Fault::Resume => self.testing.resume(),
            Fault::LoseReply(operation) => self.testing.drop_next_reply(operation),
            Fault::RemoveContender { queue, contender, .. } => {
                done = self.testing.remove_contender(queue.as_str(), &contender);
            }
            Fault::Restart => self.restart(),
            Fault::Wipe => {
                let message = "a service in memory has nothing that outlives it";
                done = Err(Error::permanent(ErrorKind::Unsupported, Operation::Configure, message));
            }
        }
        Box::pin(std::future::ready(done))
    }
}

impl MemoryClient {
    /// For its clients, a restart that keeps data and sessions is a cut of all connections at once.
    fn restart(&self) {
        let clients = self.clients.lock();
        for client in &*clients {
            client.cut(SafeUntil::ProcessEnd);
        }
        for client in &*clients {
            client.heal();
        }
    }
}
