//! PgBouncer, Debian's: a pooler between clients and a real PostgreSQL.
//!
//! It lends its clients one of its own connections to the server, for a transaction or for as long as they are there.
//! It reaches the server over a link to the server's socket, and asks it for the users.

use std::fs;
use std::net::SocketAddr;
use std::os::unix;

use tokio::net::TcpStream;

use crate::daemon::{Daemon, Ground};
use crate::process::Process;
use crate::sql::{self, Sql};
use crate::{Availability, Error, Result, postgres, process};

/// The program, which Debian keeps where only root's `PATH` looks.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// The number in the name of the socket by which it reaches the server.
const SERVER_PORT: u16 = 5_432;

/// How many clients it accepts: those of the largest test, and some beside them.
const CLIENTS_MAX: u32 = 2_100;

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
    /// The superuser's.
    password: Option<String>,
}

/// Whether poolers can be started here.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_files(&[PROGRAM], "pgbouncer"))
}

impl PgBouncer {
    /// Starts one with at most `connections` to the server for each user and database, on a free port.
    pub async fn start(server: &postgres::Server, lending: Lending, connections: u32) -> Result<Self> {
        let (superuser, password) = (postgres::Setup::SUPERUSER, server.setup.password.clone());
        let daemon = Daemon::new(Ground { is_powerless: true, ..Ground::default() })?;
        let users = format!("\"{superuser}\" \"{}\"\n", password.as_deref().unwrap_or_default());
        let mut this = Self { daemon, password };
        this.daemon.write("users", &users)?;
        this.daemon.write("configuration", &this.configuration(lending, connections))?;
        this.point_to(server)?;
        this.run().await?;
        Ok(this)
    }

    /// Has it reach this server with each connection that it opens from now on. It keeps its clients.
    pub fn point_to(&self, server: &postgres::Server) -> Result<()> {
        let socket = |port: u16| format!(".s.PGSQL.{port}");
        let (way, next) = (self.daemon.file(&socket(SERVER_PORT)), self.daemon.file("next"));
        let target = server.daemon.file(&socket(server.address().port()));
        let made = unix::fs::symlink(target, &next).and_then(|()| fs::rename(&next, &way));
        made.map_err(Error::io(way.display()))
    }

    fn configuration(&self, lending: Lending, connections: u32) -> String {
        let (address, users, folder) = (self.address(), self.daemon.file("users"), self.daemon.folder().display());
        let mode = match lending {
            Lending::Transaction => "transaction",
            Lending::Session => "session",
        };
        let superuser = postgres::Setup::SUPERUSER;
        let authentication = if self.password.is_some() { "scram-sha-256" } else { "trust" };
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
        let mut command = self.daemon.command(PROGRAM);
        command.arg(self.daemon.file("configuration"));
        self.daemon.start(command)?;
        let address = self.address();
        self.daemon.serving(async || TcpStream::connect(address).await.is_ok()).await
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The URL of the superuser's way to a database through it.
    pub fn url(&self, database: &str) -> String {
        self.url_as(postgres::Setup::SUPERUSER, self.password.as_deref(), database)
    }

    /// The URL of a user's way to a database through it.
    pub fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        sql::url(postgres::Setup::SCHEME, self.address(), user, password, database)
    }

    /// Ends it, which breaks all connections, starts it again on the same port, and waits until it listens.
    pub async fn restart(&mut self) -> Result<()> {
        self.daemon.stop(Process::terminate).await;
        self.run().await
    }
}
