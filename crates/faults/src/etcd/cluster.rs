//! Several servers that elect a leader.
//!
//! On loopback, or each in its own namespace; then [`Network`] can cut one off from its peers.

use super::Release;
use super::setup::{Setup, USUAL};
use crate::Result;
use crate::daemon::{Daemon, Ground};
use crate::group::{self, Group};
use crate::namespaces::Network;
use crate::server::{Kind, Server};

/// A cluster of real servers, numbered from 0, with etcd's own heartbeats and election timeout; dropping it kills them
/// all.
pub type Cluster = Group<Setup>;

impl Cluster {
    /// Starts `count` servers on loopback and waits until all serve.
    pub async fn start(release: Release, count: usize) -> Result<Self> {
        Self::run(release, vec![Setup::default().ground(); count]).await
    }

    /// Starts one server in each namespace of `network` and waits until all serve. The clients' addresses are those of
    /// the links from this process's own namespace.
    pub async fn start_in(network: &Network, release: Release) -> Result<Self> {
        Self::run(release, group::in_network(network, &Setup::default().ground())).await
    }

    async fn run(release: Release, grounds: impl IntoIterator<Item = Ground>) -> Result<Self> {
        let member = |index| Setup { release, pace: USUAL, name: format!("member{index}"), ..Setup::default() };
        let setup = |index, all: &[Daemon]| {
            let members: Vec<_> = all.iter().enumerate().map(|(index, one)| member(index).as_member(one).1).collect();
            Setup { members: Some(members.join(",")), ..member(index) }
        };
        Self::prepare(grounds, setup)?.started().await
    }

    /// Kills all servers, starts them again with their data, and waits until they serve.
    pub async fn restart(&mut self) -> Result<()> {
        self.servers.iter_mut().for_each(Server::kill);
        self.start_all()?;
        self.serving().await
    }

    /// Kills all servers, starts them again without any data, and waits until they serve.
    pub async fn wipe(&mut self) -> Result<()> {
        self.servers.iter_mut().for_each(Server::kill);
        self.servers.iter().try_for_each(Server::forget)?;
        self.start_all()?;
        self.serving().await
    }
}
