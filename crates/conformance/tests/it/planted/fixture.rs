//! The memory fixture, with every client's backend behind a decorator that has the bug.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lockkeeper_conformance::{Client, Fault, FaultKind, Fixture, MemoryFixture};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, BoxFuture, Result};

use super::Bug;
use super::backend::BuggyBackend;

#[derive(Debug)]
pub(crate) struct BuggyFixture {
    memory: MemoryFixture,
    bug: Bug,
    departures: Arc<tokio::sync::watch::Sender<u64>>,
}

impl BuggyFixture {
    pub(crate) fn new(bug: Bug) -> Self {
        Self { memory: MemoryFixture::start(), bug, departures: Arc::default() }
    }
}

impl Fixture for BuggyFixture {
    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        let (opening, bug, departures) = (self.memory.client(), self.bug, self.departures.clone());
        Box::pin(async move {
            let inner = opening.await?;
            let backend = Arc::new(BuggyBackend {
                inner: inner.backend(),
                bug,
                departures,
                sessions: Arc::new(AtomicU64::new(0)),
            });
            let client: Arc<dyn Client> = Arc::new(BuggyClient { inner, backend });
            Ok(client)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.memory.clock()
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        self.memory.can_inflict(kind)
    }

    fn session_timeout(&self) -> Option<Duration> {
        self.memory.session_timeout()
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        self.memory.leftovers()
    }
}

#[derive(Debug)]
struct BuggyClient {
    inner: Arc<dyn Client>,
    backend: Arc<dyn Backend>,
}

impl Client for BuggyClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        self.inner.inflict(fault)
    }
}
