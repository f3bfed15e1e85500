//! PgBouncer, Debian's: a pooler between clients and a real PostgreSQL.
//!
//! It lends its clients one of its own connections to the server, for a transaction or for as long as they are there.
//! It reaches the server over a link to the server's socket, and asks it for the users.

use std::fs;
use std::net::SocketAddr;
use std::os::unix;
use std::path::{Path, PathBuf};

use tokio::net::TcpStream;

use crate::daemon::{self, Daemon, Ground};
use crate::process::Process;
use crate::{Availability, Error, Result, postgres, process};

/// The program, which Debian keeps where only root's `PATH` looks.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// The number in the name of the socket by which it reaches the server.
const SERVER_PORT: u16 = 5_432;

/// How many clients it accepts: those of the largest test.
const CLIENTS_MAX: u32 = 2_000;

/// For how long a client is lent a connection to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lending {
    /// For each transaction.
    Transaction,
    /// For as long as it is connected.
    Session,
}

/// A pooler; dropping it kills it. Its server can be restarted meanwhile.
#[derive(Debug)]
pub struct PgBouncer {
    daemon: Daemon,
    superuser: (String, Option<String>),
}

/// Whether poolers can be started here.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_files(&[PROGRAM], "pgbouncer"))
}

impl PgBouncer {
    /// Starts one with at most `connections` to the server for each user and database, on a free port.
    ///
    /// # Errors
    ///
    /// It ended or did not listen within two minutes; the error ends with its log.
    pub async fn start(server: &postgres::Server, lending: Lending, connections: u32) -> Result<Self> {
        let (superuser, password) = server.superuser_login();
        let daemon = Daemon::new(Ground::default())?;
        let mut this = Self { daemon, superuser: (superuser.to_owned(), password.map(str::to_owned)) };
        let users = this.file("users");
        let texts = [
            (this.file("configuration"), this.configuration(lending, connections)),
            (users, format!("\"{superuser}\" \"{}\"\n", password.unwrap_or_default())),
        ];
        for (file, text) in texts {
            fs::write(&file, text).map_err(Error::io(file.display()))?;
        }
        this.point_to(server)?;
        this.run().await?;
        Ok(this)
    }

    /// Has it reach this server with each connection that it opens from now on. It keeps its clients.
    ///
    /// # Errors
    ///
    /// The way could not be made.
    pub fn point_to(&self, server: &postgres::Server) -> Result<()> {
        let socket = |port: u16| format!(".s.PGSQL.{port}");
        let (way, next) = (self.file(&socket(SERVER_PORT)), self.file("next"));
        let target = server.socket_folder().join(socket(server.address().port()));
        let made = unix::fs::symlink(target, &next).and_then(|()| fs::rename(&next, &way));
        made.map_err(Error::io(way.display()))
    }

    fn configuration(&self, lending: Lending, connections: u32) -> String {
        let (address, users, folder) = (self.address(), self.file("users"), self.daemon.folder().display());
        let mode = match lending {
            Lending::Transaction => "transaction",
            Lending::Session => "session",
        };
        let (superuser, password) = &self.superuser;
        let authentication = if password.is_some() { "scram-sha-256" } else { "trust" };
        let lines = [
            "[databases]".to_owned(),
            format!("* = host={folder} port={SERVER_PORT} auth_user={superuser}"),
            "[pgbouncer]".to_owned(),
            format!("listen_addr = {}", address.ip()),
            format!("listen_port = {}", address.port()),
            "unix_socket_dir =".to_owned(),
            format!("auth_type = {authentication}"),
            format!("auth_file = {}", users.display()),
            format!("pool_mode = {mode}"),
            format!("default_pool_size = {connections}"),
            format!("max_client_conn = {CLIENTS_MAX}"),
            // A server that restarts is found soon; by default after 15 s.
            "server_login_retry = 1".to_owned(),
        ];
        lines.join("\n") + "\n"
    }

    async fn run(&mut self) -> Result<()> {
        let mut command = self.daemon.command(Path::new(PROGRAM));
        command.arg(self.file("configuration"));
        self.daemon.start(command)?;
        let address = self.address();
        self.daemon.serving(async || TcpStream::connect(address).await.ok().map(drop)).await
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The URL of the superuser's way to a database through it.
    pub fn url(&self, database: &str) -> String {
        let (superuser, password) = &self.superuser;
        self.url_as(superuser, password.as_deref(), database)
    }

    /// The URL of a user's way to a database through it.
    pub fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        daemon::url("postgres", self.address(), user, password, database)
    }

    /// Ends it, which breaks all connections, starts it again on the same port, and waits until it listens.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn restart(&mut self) -> Result<()> {
        self.daemon.stop(Process::terminate).await;
        self.run().await
    }

    fn file(&self, name: &str) -> PathBuf {
        self.daemon.folder().join(name)
    }
}
