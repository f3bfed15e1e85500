//! Several servers of a kind that serve together.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time;

use crate::daemon::{Daemon, Ground, Namespace, SERVING_WITHIN};
use crate::namespaces::Network;
use crate::server::{Kind, Server};
use crate::{Result, wait};

/// How long one of many looks at who leads may take: a server that stands still or is starting accepts connections, and
/// one that works needs a moment of a busy processor.
pub(crate) const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Several real servers, numbered from 0; dropping it kills them all.
#[derive(Debug)]
pub struct Group<K: Kind> {
    pub(crate) servers: Vec<Server<K>>,
}

/// A kind of which several elect a leader.
pub trait Elects: Kind {
    /// Whether it takes itself for the leader, or follows one; `None` if it does not serve. One that was cut off from
    /// the others takes itself for the leader for a while.
    fn leads(operator: &Self::Operator) -> impl Future<Output = Option<bool>> + Send;
}

impl<K: Kind> Group<K> {
    /// Prepares one server on each of these grounds; what each is started with may hang on where all of them are.
    pub(crate) fn prepare(
        grounds: impl IntoIterator<Item = Ground>,
        setup: impl Fn(usize, &[Daemon]) -> K,
    ) -> Result<Self> {
        let daemons = grounds.into_iter().map(Daemon::new).collect::<Result<Vec<_>>>()?;
        let setups: Vec<_> = (0..daemons.len()).map(|index| setup(index, &daemons)).collect();
        let servers: Vec<_> =
            daemons.into_iter().zip(setups).map(|(daemon, setup)| Server::on(daemon, setup)).collect();
        servers.iter().try_for_each(|server| server.setup.fill(&server.daemon))?;
        Ok(Self { servers })
    }

    /// Starts those that do not run, and does not wait.
    pub(crate) fn start_all(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::start)
    }

    /// Starts those that do not run, and waits until all serve.
    pub(crate) async fn started(mut self) -> Result<Self> {
        self.start_all()?;
        self.serving().await?;
        Ok(self)
    }

    /// Waits until every server that runs serves.
    pub async fn serving(&mut self) -> Result<()> {
        for server in self.servers.iter_mut().filter(|server| server.pid().is_some()) {
            server.serving().await?;
        }
        Ok(())
    }

    /// The servers, by index.
    pub fn servers(&self) -> &[Server<K>] {
        &self.servers
    }

    /// One server, to kill or to pause.
    pub fn server_mut(&mut self, index: usize) -> &mut Server<K> {
        &mut self.servers[index]
    }

    /// Where clients connect, by index.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }
}

impl<K: Elects> Group<K> {
    /// The index of the leader, waiting for an election to end. Servers that do not answer are passed over.
    ///
    /// A server that was cut off believes for a while that it leads; see [`other_leader`](Self::other_leader).
    pub async fn leader(&self) -> Result<usize> {
        self.find("a leader", true, None, SERVING_WITHIN).await
    }

    /// The index of a leader other than `old`, waiting until one is elected.
    pub async fn other_leader(&self, old: usize, within: Duration) -> Result<usize> {
        self.find("another leader", true, Some(old), within).await
    }

    /// Waits until a look at a server that runs finds one that leads, or follows; answers its index.
    pub(crate) async fn find(&self, what: &str, leads: bool, but: Option<usize>, within: Duration) -> Result<usize> {
        wait::until(what, within, async || {
            for (index, server) in self.servers.iter().enumerate() {
                let looking = time::timeout(LOOK_WITHIN, K::leads(&server.operator));
                if Some(index) != but && server.pid().is_some() && looking.await == Ok(Some(leads)) {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}

/// This ground in each namespace of a network.
pub(crate) fn in_network<'a>(network: &'a Network, ground: &'a Ground) -> impl Iterator<Item = Ground> + 'a {
    (0..network.len()).map(|index| Ground { namespace: Some(Namespace::of(network, index)), ..ground.clone() })
}
