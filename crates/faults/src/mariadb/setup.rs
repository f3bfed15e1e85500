//! What a server is started with, as arguments.

use std::path::Path;

use super::asking::{SUPERUSER, literal};
use super::{Server, programs};
use crate::Result;
use crate::authority::Papers;
use crate::daemon::{Daemon, Ground, Namespace};
use crate::namespaces::Network;
use crate::ports::ReservedPort;

/// The size of the log that a server writes ahead; a template has it too. Small, since it is copied for each server.
pub(super) const LOG_SIZE: &str = "--innodb-log-file-size=16M";

/// What every server is started with.
const USUAL: [&str; 4] = ["--no-defaults", LOG_SIZE, "--innodb-buffer-pool-size=16M", "--skip-name-resolve"];

/// A log of what it commits, from which a replica follows it.
const REPLICATED: [&str; 2] = ["--log-bin=binary", "--gtid-strict-mode=ON"];

/// What a server is started with; without more words, one that lets its superuser in without a password, flushes once
/// a second, and keeps its data in memory. What it has acknowledged outlives it if it is killed.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub(super) ground: Ground,
    pub(super) password: Option<String>,
    pub(super) papers: Option<Papers>,
    is_durable: bool,
    pub(super) is_replicated: bool,
    is_galera: bool,
    /// Names and values.
    settings: Vec<(String, String)>,
}

impl Setup {
    /// One that stands alone and flushes once a second.
    pub fn new() -> Self {
        Self::default()
    }

    /// It flushes its logs to the disk before it acknowledges a commit, as MariaDB does by default.
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Data on the disk, for measuring; else it stays in memory, where no write waits for a disk.
    pub fn on_disk(mut self) -> Self {
        self.ground.on_disk = true;
        self
    }

    /// A setting, as `my.cnf` has it: `wait_timeout` and `5`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The superuser's password; the socket of [`Server::ask`] needs none.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// TLS only; clients must show a certificate.
    pub fn tls(mut self, papers: Papers) -> Self {
        self.papers = Some(papers);
        self
    }

    /// A clock that can be moved, see [`Server::move_clock`]; needs [`clock_availability`](super::clock_availability).
    pub fn movable_clock(mut self) -> Self {
        self.ground.has_clock = true;
        self
    }

    /// A file system for itself, in memory and with room for so many bytes, which [`Server::fill_disk`] takes; needs
    /// [`disk_availability`](super::disk_availability). The first data take 40 MB, and 80 MB more are taken at once.
    pub fn room_bytes(mut self, bytes: u64) -> Self {
        self.ground.room_bytes = Some(bytes);
        self
    }

    /// It listens in a namespace of a network, for this process and for the other namespaces.
    pub fn in_network(mut self, network: &Network, index: usize) -> Self {
        self.ground.namespace = Some(Namespace::of(network, index));
        self
    }

    /// It keeps the log that a [replica](Server::replica) needs.
    pub fn replicated(mut self) -> Self {
        self.is_replicated = true;
        self
    }

    /// The only node of a cluster of Galera; needs [`galera_availability`](super::galera_availability).
    pub fn galera(mut self) -> Self {
        self.is_galera = true;
        self.ground.leaves_idle_class = true;
        self
    }

    /// Starts a server with this on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended or did not serve within two minutes; the error ends with its log.
    pub async fn start(self) -> Result<Server> {
        let mut server = Server::prepare(self)?;
        server.start()?;
        server.serving().await?;
        Ok(server)
    }

    /// The ports that it needs beside that of clients.
    pub(super) fn more_ports(&self) -> Result<Vec<ReservedPort>> {
        if self.is_galera { Ok(vec![ReservedPort::take()?, ReservedPort::take()?]) } else { Ok(Vec::new()) }
    }

    /// The arguments of the server.
    pub(super) fn arguments(
        &self,
        daemon: &Daemon,
        papers: Option<&Papers>,
        more_ports: &[ReservedPort],
    ) -> Vec<String> {
        let set = |name: &str, value: &dyn ToString| format!("--{name}={}", value.to_string());
        let path = |name: &str, path: &Path| set(name, &path.display());
        let addresses: Vec<String> = daemon.listens_on().iter().map(ToString::to_string).collect();
        let port = daemon.address().port();
        let mut arguments = USUAL.map(str::to_owned).to_vec();
        arguments.extend([
            set("bind-address", &addresses.join(",")),
            set("port", &port),
            // By this number the servers of one replication know one another.
            set("server-id", &port),
            set("innodb-flush-log-at-trx-commit", if self.is_durable { &1 } else { &2 }),
            set("sync-binlog", if self.is_durable { &1 } else { &0 }),
        ]);
        if self.is_replicated {
            arguments.extend(REPLICATED.map(str::to_owned));
        }
        if let Some(Papers { cert, key, ca }) = papers {
            arguments.extend([path("ssl-cert", cert), path("ssl-key", key), path("ssl-ca", ca)]);
            arguments.push(set("require-secure-transport", &"ON"));
        }
        if let [group, state] = more_ports {
            arguments.extend(galera(group, state));
        }
        arguments.extend(self.settings.iter().map(|(name, value)| set(name, value)));
        arguments
    }

    /// The statements of each start, one a line: who may connect. They are not for replicas.
    pub(super) fn first_words(&self) -> String {
        let certificate = if self.papers.is_some() { "REQUIRE X509" } else { "" };
        let password = literal(self.password.as_deref().unwrap_or_default());
        format!(
            "SET sql_log_bin = 0;\n\
             DELETE FROM mysql.global_priv WHERE user = '{SUPERUSER}' AND host <> 'localhost';\n\
             FLUSH PRIVILEGES;\n\
             CREATE USER {SUPERUSER}@'%' IDENTIFIED BY {password} {certificate};\n\
             GRANT ALL ON *.* TO {SUPERUSER}@'%' WITH GRANT OPTION;\n"
        )
    }
}

/// The arguments of the first node of a cluster.
fn galera(group: &ReservedPort, state: &ReservedPort) -> Vec<String> {
    let (group, state) = (group.address(), state.address());
    vec![
        "--wsrep-on=ON".to_owned(),
        "--wsrep-new-cluster".to_owned(),
        "--wsrep-cluster-address=gcomm://".to_owned(),
        format!("--wsrep-provider={}", programs::GALERA),
        format!("--wsrep-provider-options=gmcast.listen_addr=tcp://{group};ist.recv_addr=tcp://{state};gcache.size=8M"),
        format!("--wsrep-node-address={group}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
    ]
}
