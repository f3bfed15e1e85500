//! A server and a proxy in front of it.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::zookeeper::words::{self, Packets};
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_zk_server::EmbeddedServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::party::Party;
use super::waiting::SOON;

/// Whether the servers of this test binary are embedded ones; its name says so.
pub const IS_EMBEDDED: bool = ends_with_embedded(env!("CARGO_CRATE_NAME"));

/// As seldom as Apache's server does it by itself.
const REAPING_SELDOM: Duration = Duration::from_secs(60);

const fn ends_with_embedded(name: &str) -> bool {
    let (name, end) = (name.as_bytes(), b"_embedded");
    let mut matching = 0;
    while matching < end.len() && matching < name.len() {
        if name[name.len() - 1 - matching] != end[end.len() - 1 - matching] {
            return false;
        }
        matching += 1;
    }
    matching == end.len()
}

/// A server of either kind.
#[derive(Debug)]
pub enum BenchServer {
    Apache(Server),
    Embedded(EmbeddedServer),
}

impl BenchServer {
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Apache(server) => server.address(),
            Self::Embedded(server) => server.address().expect("it listens"),
        }
    }

    /// Sessions and their ephemeral nodes, by the server's own account.
    pub async fn ephemerals(&self) -> Vec<(u64, String)> {
        let asking = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"dump").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(SOON, asking).await.expect("an answer in time").expect("an answer");
        words::ephemerals(&answer).expect("a list")
    }

    pub async fn restart(&mut self) {
        match self {
            Self::Apache(server) => {
                server.restart().await.expect("it serves again");
            }
            Self::Embedded(server) => server.restart().await,
        }
    }

    /// How many watches are set.
    pub async fn watches(&self) -> u64 {
        match self {
            Self::Apache(server) => server.watches().await.expect("an answer"),
            Self::Embedded(server) => server.watches_count().await as u64,
        }
    }

    /// The packets so far.
    pub async fn packets(&self) -> Packets {
        match self {
            Self::Apache(server) => server.packets().await.expect("an answer"),
            Self::Embedded(server) => {
                let counters = server.counters().await;
                Packets { received: counters.received, sent: counters.sent }
            }
        }
    }
}

/// A server and a proxy in front of it.
#[derive(Debug)]
pub struct Bench {
    pub server: BenchServer,
    pub proxy: Proxy,
}

impl Bench {
    pub async fn start() -> Self {
        Self::reaping_every(REAPING_SELDOM).await
    }

    /// A bench whose server looks this often for containers that have been empty for a while.
    pub async fn reaping_every(interval: Duration) -> Self {
        let server = if IS_EMBEDDED {
            let builder = EmbeddedServer::builder().container_check(interval);
            BenchServer::Embedded(builder.start().await.expect("a server"))
        } else {
            let setup = Setup::new().property("znode.container.checkIntervalMs", &interval.as_millis().to_string());
            BenchServer::Apache(Server::standalone(setup).await.expect("a server"))
        };
        let proxy = Proxy::start(server.address()).await.expect("a proxy");
        Self { server, proxy }
    }

    /// A keeper that goes through the proxy.
    pub fn party(&self, settings: &str) -> Party {
        Party::new(self.proxy.address(), settings)
    }

    /// A keeper that goes past the proxy.
    pub fn neighbour(&self) -> Party {
        Party::new(self.server.address(), "")
    }

    /// The paths of all ephemeral nodes, by the server's own account.
    pub async fn ephemerals(&self) -> Vec<String> {
        self.server.ephemerals().await.into_iter().map(|(_, path)| path).collect()
    }

    /// Waits until there are this many ephemeral nodes.
    pub async fn until_ephemerals(&self, count: usize) {
        lockkeeper_faults::wait::until("the number of nodes", SOON, async || {
            (self.ephemerals().await.len() == count).then_some(())
        })
        .await
        .expect("in time");
    }
}
