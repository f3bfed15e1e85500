//! The servers of tests: Apache's, shared or one test's alone, and the embedded one.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use lockkeeper_faults::Availability;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::sync::Mutex;

/// The property that says how often Apache's server looks for containers that have been empty for a while.
const REAPING_INTERVAL: &str = "znode.container.checkIntervalMs";

/// Apache's server does it each minute, which a test on a shared server cannot foresee: there it does not happen.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Whose implementation a server is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Make {
    Apache,
    Embedded,
}

impl Make {
    /// Whether such a server can be started; if not, the test is skipped.
    pub(crate) fn can_start(self) -> bool {
        match self {
            Self::Apache => can_run(zookeeper::availability()),
            Self::Embedded => true,
        }
    }

    /// Starts a server that looks for empty containers this often.
    pub(super) async fn start(self, reaping_interval: Duration) -> BenchServer {
        match self {
            Self::Apache => BenchServer::Apache(apache(reaping_interval).await),
            Self::Embedded => {
                let builder = EmbeddedServer::builder().container_check(reaping_interval);
                BenchServer::Embedded(builder.start().await.expect("a server"))
            }
        }
    }
}

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run(needed: Availability) -> bool {
    needed.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

async fn apache(reaping_interval: Duration) -> Server {
    let setup = Setup::new().property(REAPING_INTERVAL, &reaping_interval.as_millis().to_string());
    // All clients of this machine come from one address, of which Apache's server takes 60 connections.
    Server::standalone(setup.entry("maxClientCnxns", "0")).await.expect("a server")
}

/// A server of either make.
#[derive(Debug)]
pub(crate) enum BenchServer {
    /// Other tests use it too: what it counts is not what one test did.
    Shared(Arc<Server>),
    Apache(Server),
    Embedded(EmbeddedServer),
}

impl BenchServer {
    /// Apache's server, which all tests use that do nothing to it; it ends with the last of them.
    pub(super) async fn shared() -> Self {
        static SHARED: Mutex<Weak<Server>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return Self::Shared(server);
        }
        let server = Arc::new(apache(NEVER).await);
        *shared = Arc::downgrade(&server);
        Self::Shared(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Shared(server) => server.address(),
            Self::Apache(server) => server.address(),
            Self::Embedded(server) => server.address().expect("it listens"),
        }
    }

    pub(crate) async fn restart(&mut self) {
        match self {
            Self::Shared(_) => panic!("other tests use it"),
            Self::Apache(server) => {
                server.restart().await.expect("it serves again");
            }
            Self::Embedded(server) => server.restart().await,
        }
    }

    /// How many watches are set.
    pub(crate) async fn watches(&self) -> u64 {
        match self {
            Self::Shared(_) => panic!("other tests set watches there"),
            Self::Apache(server) => server.watches().await.expect("an answer"),
            Self::Embedded(server) => server.watches_count().await as u64,
        }
    }
}
