//! What a server is started with, as lines of its configuration.

use super::Server;
use super::asking::literal;
use crate::Result;
use crate::authority::Papers;
use crate::daemon::{Daemon, Ground, Namespace};
use crate::namespaces::Network;

/// What a server is started with; without more words, one that lets all in without a password, flushes nothing, and
/// keeps its data in memory.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub(super) ground: Ground,
    pub(super) password: Option<String>,
    is_durable: bool,
    pub(super) papers: Option<Papers>,
    /// Names and values.
    settings: Vec<(String, String)>,
}

impl Setup {
    /// One that stands alone and flushes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// It flushes its log to the disk before it acknowledges a commit (`fsync`), as PostgreSQL does by default.
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Data on the disk, for measuring; else it stays in memory, where no write waits for a disk.
    pub fn on_disk(mut self) -> Self {
        self.ground.on_disk = true;
        self
    }

    /// A setting, as `postgresql.conf` has it: `statement_timeout` and `1ms`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Clients must prove that they know their role's password (SCRAM); this is the superuser's.
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
    /// [`disk_availability`](super::disk_availability). The first data take 40 MB.
    pub fn room_bytes(mut self, bytes: u64) -> Self {
        self.ground.room_bytes = Some(bytes);
        self
    }

    /// It listens in a namespace of a network, for this process and for the other namespaces.
    pub fn in_network(mut self, network: &Network, index: usize) -> Self {
        self.ground.namespace = Some(Namespace::of(network, index));
        self
    }

    /// Starts a server with this on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended or did not serve within two minutes; the error ends with its log.
    pub async fn start(self) -> Result<Server> {
        let password = self.password.clone();
        let mut server = Server::prepare(self)?;
        server.fill()?;
        server.start()?;
        server.serving().await?;
        if let Some(password) = password {
            server.ask(&format!("ALTER ROLE postgres PASSWORD {}", literal(&password))).await?;
        }
        Ok(server)
    }

    /// The text of its configuration.
    pub(super) fn configuration(&self, daemon: &Daemon, papers: Option<&Papers>) -> String {
        let addresses: Vec<String> = daemon.listens_on().iter().map(ToString::to_string).collect();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut lines = vec![
            set("listen_addresses", &addresses.join(",")),
            set("port", &daemon.address().port().to_string()),
            set("unix_socket_directories", &daemon.folder().display().to_string()),
            set("fsync", if self.is_durable { "on" } else { "off" }),
            // What is not in files of the data outlives a server that is killed.
            set("dynamic_shared_memory_type", "mmap"),
        ];
        if let Some(Papers { cert, key, ca }) = papers {
            let files = [("ssl_cert_file", cert), ("ssl_key_file", key), ("ssl_ca_file", ca)];
            lines.push(set("ssl", "on"));
            lines.extend(files.map(|(name, file)| set(name, &file.display().to_string())));
        }
        lines.extend(self.settings.iter().cloned());
        lines.iter().map(|(name, value)| format!("{name} = {}\n", literal(value))).collect()
    }

    /// The text of who may connect, and how: all over the socket, which only this machine's account reaches.
    pub(super) fn entrance(&self) -> String {
        let (kind, certificate) = match self.papers {
            Some(_) => ("hostssl", " clientcert=verify-ca"),
            None => ("host", ""),
        };
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let remote = ["all", "replication"].map(|what| format!("{kind} {what} all all {method}{certificate}\n"));
        format!("local all all trust\nlocal replication all trust\n{}", remote.concat())
    }
}
