//! A server and a proxy in front of it.

use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::zookeeper::{Server, Setup};

use super::party::Party;
use super::waiting::SOON;

/// A server and a proxy in front of it.
#[derive(Debug)]
pub struct Bench {
    pub server: Server,
    pub proxy: Proxy,
}

impl Bench {
    pub async fn start() -> Self {
        Self::with(Setup::new()).await
    }

    pub async fn with(setup: Setup) -> Self {
        let server = Server::standalone(setup).await.expect("a server");
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
        let all = self.server.ephemerals().await.expect("the server answers");
        all.into_iter().map(|(_, path)| path).collect()
    }

    /// Waits until there are so many ephemeral nodes.
    pub async fn until_ephemerals(&self, count: usize) {
        lockkeeper_faults::wait::until("the number of nodes", SOON, async || {
            (self.ephemerals().await.len() == count).then_some(())
        })
        .await
        .expect("in time");
    }
}
