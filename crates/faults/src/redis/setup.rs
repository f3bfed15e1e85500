//! The start of a server, as lines of its configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::asking::Operator;
use super::{Release, Server};
use crate::authority::CertificateFiles;
use crate::daemon::{Daemon, Ground};
use crate::server::{Clocked, Kind};
use crate::{Availability, Error, Result};

/// The socket of operators, and the configuration, in the server's folder.
const SOCKET: &str = "operator";
const CONFIGURATION: &str = "redis.conf";

/// How long a member of a cluster may be silent before the others take it for gone, in milliseconds. A loaded machine
/// keeps one waiting for a while, too.
const CLUSTER_TIMEOUT_MS: u32 = 4_000;

/// When a server that keeps a log of its writes makes the disk have them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flush {
    /// Before it answers.
    Always,
    /// Once a second.
    EverySecond,
}

/// Which program it runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Store,
    Member,
    Sentinel,
}

/// What a server is started with; without more words, Debian's, without persistence, in memory.
#[derive(Clone, Debug)]
pub struct Setup {
    release: Release,
    part: Part,
    flush: Option<Flush>,
    ground: Ground,
    password: Option<String>,
    certificates: Option<CertificateFiles>,
    /// The rest of the configuration.
    lines: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// One that stands alone and keeps nothing.
    pub fn new() -> Self {
        Self::of(Part::Store)
    }

    /// A member of a cluster.
    pub(super) fn member() -> Self {
        // One port for the others of the cluster.
        Self { ground: Ground { more_ports: 1, ..Ground::default() }, ..Self::of(Part::Member) }
    }

    /// A sentinel, with what it watches.
    pub(super) fn sentinel(lines: impl IntoIterator<Item = String>) -> Self {
        Self::of(Part::Sentinel).and(lines)
    }

    fn of(part: Part) -> Self {
        Self {
            release: Release::Debian,
            part,
            flush: None,
            ground: Ground::default(),
            password: None,
            certificates: None,
            lines: Vec::new(),
        }
    }

    /// Another release.
    pub fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// A log of all writes (AOF), from which it knows its data after a restart.
    pub fn append_only(mut self, flush: Flush) -> Self {
        self.flush = Some(flush);
        self
    }

    /// Data on the disk, for measuring; else it stays in memory, where no write waits for a disk.
    pub fn on_disk(mut self) -> Self {
        self.ground.on_disk = true;
        self
    }

    /// How much memory it may use, and what it does when that is full (`noeviction`, `allkeys-lru`).
    pub fn memory(self, bytes: u64, policy: &str) -> Self {
        self.and([format!("maxmemory {bytes}"), format!("maxmemory-policy {policy}")])
    }

    /// A user, as a line of an ACL file says it without its first word: `lk on >secret ~* +@all`.
    pub fn user(self, rules: &str) -> Self {
        self.and([format!("user {rules}")])
    }

    /// The password that clients must give.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.and([format!("requirepass {password}")])
    }

    /// A replica of another server, until it is promoted.
    pub fn replica_of(self, master: &Server) -> Self {
        let password = master.setup.password.as_ref().map(|password| format!("masterauth {password}"));
        let address = master.address();
        self.and([format!("replicaof {} {}", address.ip(), address.port())]).and(password)
    }

    /// TLS instead of plain text; clients must show a certificate.
    pub fn tls(mut self, certificates: CertificateFiles) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// A clock that can be moved, see [`Server::move_clock`]; needs [`clock_availability`](super::clock_availability).
    pub fn movable_clock(mut self) -> Self {
        self.ground.has_clock = true;
        self
    }

    /// Starts a server with this on a free port, and waits until it serves.
    pub async fn start(self) -> Result<Server> {
        Server::started(self).await
    }

    fn and(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }

    /// The text of its configuration.
    fn configuration(&self, daemon: &Daemon) -> String {
        let (folder, data) = (daemon.folder().display(), daemon.data_folder());
        let data = format!("dir {}", data.display());
        let mut lines = vec!["bind 127.0.0.1".to_owned(), format!("unixsocket {folder}/{SOCKET}"), data];
        let port = daemon.address().port();
        match &self.certificates {
            None => lines.push(format!("port {port}")),
            Some(CertificateFiles { cert, key, ca }) => lines.extend([
                "port 0".to_owned(),
                format!("tls-port {port}"),
                format!("tls-cert-file {}", cert.display()),
                format!("tls-key-file {}", key.display()),
                format!("tls-ca-cert-file {}", ca.display()),
                "tls-auth-clients yes".to_owned(),
            ]),
        }
        if self.part != Part::Sentinel {
            // A replica is sent the data at once, not after the five seconds in which others may come.
            lines.extend([r#"save """#, "repl-diskless-sync-delay 0"].map(str::to_owned));
            lines.extend(self.persistence().map(str::to_owned));
        }
        if self.part == Part::Member {
            lines.extend([
                "cluster-enabled yes".to_owned(),
                format!("cluster-config-file {folder}/nodes.conf"),
                format!("cluster-node-timeout {CLUSTER_TIMEOUT_MS}"),
                format!("cluster-port {}", daemon.peer_address(1).port()),
            ]);
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn persistence(&self) -> [&'static str; 2] {
        match self.flush {
            None => ["appendonly no", "appendfsync everysec"],
            Some(Flush::Always) => ["appendonly yes", "appendfsync always"],
            Some(Flush::EverySecond) => ["appendonly yes", "appendfsync everysec"],
        }
    }
}

impl Kind for Setup {
    type Operator = Operator;

    fn availability(&self) -> Availability {
        self.release.availability()
    }

    fn ground(&self) -> Ground {
        self.ground.clone()
    }

    fn operator(&self, daemon: &Daemon) -> Operator {
        Operator { socket: daemon.file(SOCKET), password: self.password.clone() }
    }

    fn fill(&self, daemon: &Daemon) -> Result<()> {
        // A server that was promoted has written its own.
        if !daemon.file(CONFIGURATION).exists() {
            daemon.write(CONFIGURATION, &self.configuration(daemon))?;
        }
        let data = daemon.data_folder();
        fs::create_dir(&data).map_err(Error::io(data.display()))
    }

    fn command(&self, daemon: &Daemon) -> Result<Command> {
        let mut command = daemon.command(match self.part {
            Part::Sentinel => Path::new("redis-sentinel").to_owned(),
            Part::Store | Part::Member => self.release.server()?,
        });
        command.arg(daemon.file(CONFIGURATION));
        Ok(command)
    }

    async fn serves(operator: &Operator) -> bool {
        operator.ask::<String>(&["PING"]).await.is_ok()
    }
}

impl Clocked for Setup {
    async fn time_s(operator: &Operator) -> Result<i64> {
        let (seconds, _microseconds): (i64, i64) = operator.ask(&["TIME"]).await?;
        Ok(seconds)
    }
}
