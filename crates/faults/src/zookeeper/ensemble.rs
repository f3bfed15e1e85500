//! Several servers that elect a leader.
//!
//! On loopback, or each in its own namespace; then [`Network`] can cut one off from its peers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::server::{Home, SERVING_WITHIN};
use super::setup::{Member, Setup};
use super::{Role, Server};
use crate::namespaces::Network;
use crate::ports::ReservedPort;
use crate::scratch::Scratch;
use crate::{Result, wait};

/// Ports inside a namespace, where no other process listens: ZooKeeper's usual ones.
const CLIENT_PORT: u16 = 2181;
const QUORUM_PORT: u16 = 2888;
const ELECTION_PORT: u16 = 3888;

/// An ensemble of real servers, numbered from 0; dropping it kills them all.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
}

impl Ensemble {
    /// Starts `count` servers on loopback and waits until all serve.
    ///
    /// # Errors
    ///
    /// One of them ended, or did not serve within two minutes; the error ends with its log.
    pub async fn start(count: usize, setup: Setup) -> Result<Self> {
        Self::on_loopback(count, setup, Scratch::in_memory).await
    }

    /// Starts such servers whose data are on the disk, for measuring.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_on_disk(count: usize, setup: Setup) -> Result<Self> {
        Self::on_loopback(count, setup, Scratch::new).await
    }

    async fn on_loopback(count: usize, setup: Setup, folder: fn() -> Result<Scratch>) -> Result<Self> {
        let mut homes = Vec::new();
        let mut members = Vec::new();
        for number in 1..=count {
            let ports = [ReservedPort::take()?, ReservedPort::take()?, ReservedPort::take()?];
            members.push(Member {
                number,
                host: IpAddr::V4(Ipv4Addr::LOCALHOST),
                quorum_port: ports[1].number(),
                election_port: ports[2].number(),
            });
            homes.push(Home { folder: folder()?, namespace: None, ports: ports.into() });
        }
        let mut servers = Vec::new();
        for (member, home) in members.iter().zip(homes) {
            let address = home.ports[0].address();
            let server = Server::prepare(setup.clone(), address, address.ip(), home, &members, member.number)?;
            servers.push(server);
        }
        Self::run(servers).await
    }

    /// Starts one server in each namespace of `network` and waits until all serve. The clients' addresses are those of
    /// the links from this process's own namespace.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_in(network: &Network, setup: Setup) -> Result<Self> {
        let members: Vec<Member> = (0..network.len())
            .map(|index| Member {
                number: index + 1,
                host: network.peer_address(index).into(),
                quorum_port: QUORUM_PORT,
                election_port: ELECTION_PORT,
            })
            .collect();
        let mut servers = Vec::new();
        for index in 0..network.len() {
            let host = IpAddr::V4(network.client_address(index));
            let home = Home::in_memory(Some(network.namespace(index)), Vec::new())?;
            let address = (host, CLIENT_PORT).into();
            servers.push(Server::prepare(setup.clone(), address, host, home, &members, index + 1)?);
        }
        Self::run(servers).await
    }

    async fn run(mut servers: Vec<Server>) -> Result<Self> {
        for server in &mut servers {
            server.start()?;
        }
        let mut ensemble = Self { servers };
        ensemble.serving().await?;
        Ok(ensemble)
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

    /// All addresses, as clients want them: `host:port,host:port`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(|server| server.address().to_string()).collect();
        addresses.join(",")
    }

    /// The index of the leader, waiting for an election to end. Servers that do not answer are passed over.
    ///
    /// A server that was cut off believes that it leads for a few ticks more; see [`other_leader`](Self::other_leader).
    ///
    /// # Errors
    ///
    /// There is no leader for two minutes.
    pub async fn leader(&self) -> Result<usize> {
        self.with_role("a leader", Role::Leader, None, SERVING_WITHIN).await
    }

    /// The index of a leader other than `old`, waiting until one is elected.
    ///
    /// # Errors
    ///
    /// No other server leads `within` the time.
    pub async fn other_leader(&self, old: usize, within: Duration) -> Result<usize> {
        self.with_role("another leader", Role::Leader, Some(old), within).await
    }

    /// The index of a follower.
    ///
    /// # Errors
    ///
    /// There is no follower for two minutes.
    pub async fn follower(&self) -> Result<usize> {
        self.with_role("a follower", Role::Follower, None, SERVING_WITHIN).await
    }

    async fn with_role(&self, what: &str, role: Role, except: Option<usize>, within: Duration) -> Result<usize> {
        wait::until(what, within, async || {
            for (index, server) in self.servers.iter().enumerate() {
                if Some(index) != except && server.pid().is_some() && server.role_at_a_look().await == Some(role) {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}
