//! Backends with one planted bug each, or with a layout that carries few modes: the memory fixture, with every client's
//! backend behind a decorator that has the bug.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, BoxFuture, Modes, Result};

use crate::fixture::{Client, Fault, FaultKind, Fixture, Sessions};
use crate::memory::MemoryFixture;
use crate::planted::backend::BuggyBackend;
use crate::planted::{Bug, Layout};

/// The memory fixture with a bug.
#[derive(Debug)]
pub struct BuggyFixture {
    memory: MemoryFixture,
    bug: Bug,
    layout: Layout,
    departures: Arc<tokio::sync::watch::Sender<u64>>,
}

impl BuggyFixture {
    /// Starts one with this bug.
    pub fn new(bug: Bug) -> Self {
        let layout = match bug {
            Bug::HasNoPlaceForPermits => {
                let others = Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::ELECTION).with(Modes::BARRIER);
                Layout::of_no_more_than(others)
            }
            _ => Layout::of(Modes::ALL),
        };
        Self { memory: MemoryFixture::start(), bug, layout, departures: Arc::default() }
    }

    /// Gives the service this layout.
    pub fn laid_out(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }
}

impl Fixture for BuggyFixture {
    fn prepare(&self, sessions: Sessions) {
        self.memory.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        let (opening, bug) = (self.memory.client(), self.bug);
        let (layout, departures) = (self.layout.clone(), self.departures.clone());
        Box::pin(async move {
            let inner = opening.await?;
            let backend = Arc::new(BuggyBackend::new(inner.backend(), bug, layout, departures));
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
