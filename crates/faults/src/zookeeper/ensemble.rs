//! One server alone, and several that elect a leader.
//!
//! Several are on loopback, or each in its own namespace; then [`Network`] can cut one off from its peers.

use std::ops::Deref;

use super::{Server, ServerWords, Setup};
use crate::Result;
use crate::daemon::{Daemon, Ground, SERVING_WITHIN};
use crate::group::{self, Group};
use crate::namespaces::Network;

impl Server {
    /// Starts a server that stands alone on a free port, and waits until it serves.
    pub async fn standalone(setup: Setup) -> Result<Self> {
        Self::started(setup).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    pub async fn standalone_on_disk(setup: Setup) -> Result<Self> {
        Self::started(Setup { on_disk: true, ..setup }).await
    }
}

impl Deref for Server {
    type Target = ServerWords;

    fn deref(&self) -> &ServerWords {
        &self.operator
    }
}

/// An ensemble of real servers, numbered from 0; dropping it kills them all.
pub type Ensemble = Group<Setup>;

impl Ensemble {
    /// Starts `count` servers on loopback and waits until all serve.
    pub async fn start(count: usize, setup: Setup) -> Result<Self> {
        let grounds = vec![setup.member_ground(); count];
        Self::run(grounds, setup).await
    }

    /// Starts such servers whose data are on the disk, for measuring.
    pub async fn start_on_disk(count: usize, setup: Setup) -> Result<Self> {
        Self::start(count, Setup { on_disk: true, ..setup }).await
    }

    /// Starts one server in each namespace of `network` and waits until all serve. The clients' addresses are those of
    /// the links from this process's own namespace.
    pub async fn start_in(network: &Network, setup: Setup) -> Result<Self> {
        let ground = setup.member_ground();
        Self::run(group::in_network(network, &ground), setup).await
    }

    async fn run(grounds: impl IntoIterator<Item = Ground>, setup: Setup) -> Result<Self> {
        let setup = |index, all: &[Daemon]| {
            let members = (1..).zip(all).map(|(number, daemon)| Setup::member(number, daemon)).collect();
            Setup { number: index + 1, members, ..setup.clone() }
        };
        Self::prepare(grounds, setup)?.started().await
    }

    /// All addresses, as clients want them: `host:port,host:port`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(ToString::to_string).collect();
        addresses.join(",")
    }

    /// The index of a follower.
    pub async fn follower(&self) -> Result<usize> {
        self.find("a follower", false, None, SERVING_WITHIN).await
    }
}
