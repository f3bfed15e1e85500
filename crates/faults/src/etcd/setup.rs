//! The start of a server: its release, its peers and its certificates.

use std::net::SocketAddr;
use std::process::Command;

use super::{Release, asking};
use crate::authority::CertificateFiles;
use crate::daemon::{Daemon, Ground};
use crate::group::Elects;
use crate::server::Kind;
use crate::{Availability, Result};

/// How often a leader tells the members that it is there, and how long they wait for that before they elect another
/// one, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    heartbeat: u32,
    election: u32,
}

/// One that stands alone elects itself soon.
const ALONE: Pace = Pace { heartbeat: 20, election: 200 };

/// No lease is shorter than one and a half times the time in which a member waits for its leader.
pub(super) const SLOW: Pace = Pace { heartbeat: 500, election: 5_000 };

/// etcd's own.
pub(super) const USUAL: Pace = Pace { heartbeat: 100, election: 1_000 };

/// The least work that a server can make of a password: of fifty users who come at once, it would do nothing else.
const BCRYPT_COST: &str = "4";

/// Ports beside that of clients: for its peers, and where it says how it is, also to a client without a certificate.
const PEERS: usize = 1;
const HEALTH: usize = 2;

/// What a server is started with; by default Debian's, which stands alone.
///
/// Its data stay in memory, unless it is measured: etcd makes each write wait until the disk has it, and a disk that is
/// busy with other things for some seconds ends leases.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) release: Release,
    pub(super) pace: Pace,
    pub(super) certificates: Option<CertificateFiles>,
    pub(super) on_disk: bool,
    /// Its name in the cluster.
    pub(super) name: String,
    /// The members of its cluster, if others are beside itself.
    pub(super) members: Option<String>,
}

/// Where an operator asks a server, and where for how it is.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    clients: SocketAddr,
    health: SocketAddr,
}

impl Default for Setup {
    fn default() -> Self {
        let (certificates, members, name) = (None, None, "alone".to_owned());
        Self { release: Release::Debian, pace: ALONE, certificates, on_disk: false, name, members }
    }
}

impl Setup {
    /// How its peers know it: where they reach it, and the same with its name.
    pub(super) fn as_member(&self, daemon: &Daemon) -> (String, String) {
        let peers = format!("http://{}", daemon.peer_address(PEERS));
        let member = format!("{}={peers}", self.name);
        (peers, member)
    }
}

impl Kind for Setup {
    type Operator = Operator;

    fn availability(&self) -> Availability {
        self.release.availability()
    }

    fn ground(&self) -> Ground {
        Ground { on_disk: self.on_disk, more_ports: HEALTH, ..Ground::default() }
    }

    fn operator(&self, daemon: &Daemon) -> Operator {
        Operator { clients: daemon.address(), health: daemon.client_address(HEALTH) }
    }

    fn fill(&self, _: &Daemon) -> Result<()> {
        Ok(())
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(self.release.server()?);
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        let clients = format!("{scheme}://{}", daemon.address());
        let health = format!("http://{}", daemon.client_address(HEALTH));
        let (peers, itself) = self.as_member(daemon);
        let Pace { heartbeat, election } = self.pace;
        command
            .args(["--name", &self.name, "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(daemon.data_folder())
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-metrics-urls", &health])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", self.members.as_ref().unwrap_or(&itself)])
            .args(["--bcrypt-cost", BCRYPT_COST])
            .args(["--heartbeat-interval", &heartbeat.to_string(), "--election-timeout", &election.to_string()]);
        if let Some(CertificateFiles { cert, key, ca }) = &self.certificates {
            command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        }
        Ok(command)
    }

    /// It serves once it has a leader.
    async fn serves(operator: &Operator) -> bool {
        asking::ask(operator.health, "GET", "/health", "").await.is_ok_and(|health| health.contains("true"))
    }
}

impl Elects for Setup {
    async fn leads(operator: &Operator) -> Option<bool> {
        let status = asking::status(operator.clients).await.ok()?;
        Some(asking::number(&status, "leader")? == asking::number(&status, "member_id")?)
    }
}
