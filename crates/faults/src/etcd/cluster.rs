//! Several servers that elect a leader.
//!
//! On loopback, or each in its own namespace; then [`Network`] can cut one off from its peers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::server::SERVING_WITHIN;
use super::setup::{Place, Setup, USUAL};
use super::{Release, Server};
use crate::namespaces::Network;
use crate::{Result, wait};

/// Ports inside a namespace, where no other process listens: etcd's usual ones.
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const HEALTH_PORT: u16 = 2381;

/// A cluster of real servers, numbered from 0, with etcd's own heartbeats and election timeout; dropping it kills them
/// all.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts `count` servers on loopback and waits until all serve.
    ///
    /// # Errors
    ///
    /// One of them ended, or did not serve within two minutes; the error ends with its log.
    pub async fn start(release: Release, count: usize) -> Result<Self> {
        let places = (0..count).map(|index| Place::on_loopback(name(index))).collect::<Result<_>>()?;
        Self::run(release, places).await
    }

    /// Starts one server in each namespace of `network` and waits until all serve. The clients' addresses are those of
    /// the links from this process's own namespace.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_in(network: &Network, release: Release) -> Result<Self> {
        let place = |index| {
            let clients = IpAddr::V4(network.client_address(index));
            let peers = IpAddr::V4(network.peer_address(index));
            let addresses = [(clients, CLIENT_PORT), (peers, PEER_PORT), (clients, HEALTH_PORT)];
            Place::in_namespace(name(index), network.namespace(index), addresses.map(SocketAddr::from))
        };
        Self::run(release, (0..network.len()).map(place).collect()).await
    }

    async fn run(release: Release, places: Vec<Place>) -> Result<Self> {
        let members = places.iter().map(Place::as_member).collect::<Vec<_>>().join(",");
        let setup = |place| Setup { release, place, members: members.clone(), pace: USUAL, papers: None };
        let servers = places.into_iter().map(|place| Server::prepare(setup(place))).collect::<Result<_>>()?;
        let mut cluster = Self { servers };
        cluster.start_all()?;
        cluster.serving().await?;
        Ok(cluster)
    }

    /// Starts those that do not run, and does not wait.
    fn start_all(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::start)
    }

    /// Waits until every server that runs serves.
    ///
    /// # Errors
    ///
    /// As [`Server::serving`].
    pub async fn serving(&mut self) -> Result<()> {
        for server in self.servers.iter_mut().filter(|server| server.pid().is_some()) {
            server.serving().await?;
        }
        Ok(())
    }

    /// Kills all servers, starts them again with their data, and waits until they serve.
    ///
    /// # Errors
    ///
    /// As [`Server::serving`].
    pub async fn restart(&mut self) -> Result<()> {
        self.servers.iter_mut().for_each(Server::kill);
        self.start_all()?;
        self.serving().await
    }

    /// Kills all servers, starts them again without any data, and waits until they serve.
    ///
    /// # Errors
    ///
    /// As [`Server::serving`].
    pub async fn wipe(&mut self) -> Result<()> {
        self.servers.iter_mut().for_each(Server::kill);
        self.servers.iter().try_for_each(Server::forget)?;
        self.start_all()?;
        self.serving().await
    }

    /// The servers, by index.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One server, to kill or to pause.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn server_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// Where clients connect, by index.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }

    /// The index of the leader, waiting for an election to end. Servers that do not answer are passed over.
    ///
    /// A server that was cut off believes for a while that it leads; see [`other_leader`](Self::other_leader).
    ///
    /// # Errors
    ///
    /// There is no leader for two minutes.
    pub async fn leader(&self) -> Result<usize> {
        self.leader_but(None, SERVING_WITHIN).await
    }

    /// The index of a leader other than `old`, waiting until one is elected.
    ///
    /// # Errors
    ///
    /// No other server leads `within` the time.
    pub async fn other_leader(&self, old: usize, within: Duration) -> Result<usize> {
        self.leader_but(Some(old), within).await
    }

    async fn leader_but(&self, old: Option<usize>, within: Duration) -> Result<usize> {
        wait::until("a leader", within, async || {
            for (index, server) in self.servers.iter().enumerate() {
                if Some(index) != old && server.pid().is_some() && server.leads_at_a_look().await == Some(true) {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}

fn name(index: usize) -> String {
    format!("member{index}")
}
