//! What a server is started with: its release, its addresses, its peers and its papers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::Release;
use crate::authority::Papers;
use crate::ports::ReservedPort;
use crate::{Result, process};

/// How often a leader tells the members that it is there, and how long they wait for that before they elect another
/// one, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    heartbeat: u32,
    election: u32,
}

/// One that stands alone elects itself soon.
pub(super) const ALONE: Pace = Pace { heartbeat: 20, election: 200 };

/// No lease is shorter than one and a half times the time in which a member waits for its leader.
pub(super) const SLOW: Pace = Pace { heartbeat: 500, election: 5_000 };

/// etcd's own.
pub(super) const USUAL: Pace = Pace { heartbeat: 100, election: 1_000 };

/// The least work that a server can make of a password: of fifty users who come at once, it would do nothing else.
const BCRYPT_COST: &str = "4";

/// Where a server is reached.
#[derive(Debug)]
pub(super) struct Place {
    /// Its name in the cluster.
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) clients: SocketAddr,
    pub(super) peers: SocketAddr,
    /// Where it says how it is, also to a client without a certificate.
    pub(super) health: SocketAddr,
    /// Those of these ports that are ours on this machine.
    _ports: Vec<ReservedPort>,
}

impl Place {
    /// Free ports on loopback.
    pub(super) fn on_loopback(name: String) -> Result<Self> {
        let ports = vec![ReservedPort::take()?, ReservedPort::take()?, ReservedPort::take()?];
        let [clients, peers, health] = [0, 1, 2].map(|index: usize| ports[index].address());
        Ok(Self { name, namespace: None, clients, peers, health, _ports: ports })
    }

    /// Addresses in a namespace, where no other process listens.
    pub(super) fn in_namespace(name: String, namespace: String, addresses: [SocketAddr; 3]) -> Self {
        let [clients, peers, health] = addresses;
        Self { name, namespace: Some(namespace), clients, peers, health, _ports: Vec::new() }
    }

    /// How the other members know it.
    pub(super) fn as_member(&self) -> String {
        format!("{}=http://{}", self.name, self.peers)
    }
}

/// All that a server is started with, but for its data.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) release: Release,
    pub(super) place: Place,
    /// The members of its cluster, itself among them.
    pub(super) members: String,
    pub(super) pace: Pace,
    pub(super) papers: Option<Papers>,
}

impl Setup {
    /// The command that starts it with its data in this folder.
    pub(super) fn command(&self, data: &Path) -> Result<Command> {
        let program = self.release.server()?;
        let mut command = match &self.place.namespace {
            Some(namespace) => process::command_in_namespace(namespace, program),
            None => process::command(program),
        };
        let scheme = if self.papers.is_some() { "https" } else { "http" };
        let clients = format!("{scheme}://{}", self.place.clients);
        let (health, peers) = (format!("http://{}", self.place.health), format!("http://{}", self.place.peers));
        let Pace { heartbeat, election } = self.pace;
        command
            .args(["--name", &self.place.name, "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-metrics-urls", &health])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &self.members])
            .args(["--bcrypt-cost", BCRYPT_COST])
            .args(["--heartbeat-interval", &heartbeat.to_string(), "--election-timeout", &election.to_string()]);
        if let Some(Papers { cert, key, ca }) = &self.papers {
            command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        }
        Ok(command)
    }
}
