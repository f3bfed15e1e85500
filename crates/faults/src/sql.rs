//! The common part of database servers: what they are started with, and the superuser who asks them.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::time;

use crate::authority::CertificateFiles;
use crate::daemon::Ground;
use crate::server::{Clocked, Kind, Server};
use crate::wait::ANSWERED_WITHIN;
use crate::{Error, Result};

/// A row of an answer, as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// What a server is started with; without more words, one that lets its superuser in without a password, waits for no
/// disk, and keeps its data in memory. `Own` is what it has of its kind alone.
#[derive(Clone, Debug)]
pub struct Setup<Own> {
    pub(crate) ground: Ground,
    pub(crate) password: Option<String>,
    pub(crate) certificates: Option<CertificateFiles>,
    pub(crate) is_durable: bool,
    /// Names and values.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) own: Own,
}

impl<Own: Default> Default for Setup<Own> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Own: Default> Setup<Own> {
    /// One that stands alone, and waits for no disk.
    pub fn new() -> Self {
        let ground = Ground { is_powerless: true, ..Ground::default() };
        let (password, certificates, settings) = (None, None, Vec::new());
        Self { ground, password, certificates, is_durable: false, settings, own: Own::default() }
    }
}

impl<Own> Setup<Own> {
    /// It flushes its logs to the disk before it acknowledges a commit, as it does by default.
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Data on the disk, for measuring; else it stays in memory, where no write waits for a disk.
    pub fn on_disk(mut self) -> Self {
        self.ground.on_disk = true;
        self
    }

    /// A setting, as the file of its configuration has it: `statement_timeout` and `1ms`, `wait_timeout` and `5`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Clients must prove that they know their user's password; this is the superuser's. [`Server::ask`] needs none.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// TLS only; clients must show a certificate.
    pub fn tls(mut self, certificates: CertificateFiles) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// A clock that can be moved, see [`Server::move_clock`]; its module says whether it can be here.
    pub fn movable_clock(mut self) -> Self {
        self.ground.has_clock = true;
        self
    }

    /// A file system for itself, in memory and with room for so many bytes, which [`Server::fill_disk`] takes; its
    /// module says whether it can have one here. The first data take 40 MB; MariaDB takes 80 MB more at once.
    pub fn room_bytes(mut self, bytes: u64) -> Self {
        self.ground.room_bytes = Some(bytes);
        self
    }
}

/// The way in of a superuser, who needs no password there: a socket in the file system.
#[derive(Clone, Debug)]
pub struct Superuser {
    pub(crate) folder: PathBuf,
    /// What the server listens on for others names the socket.
    pub(crate) port: u16,
}

/// A database.
pub trait Sql: Kind<Operator = Superuser> {
    /// How its URLs begin.
    const SCHEME: &str;

    /// Who may do all.
    const SUPERUSER: &str;

    /// Asks for the time in seconds.
    const TIME: &str;

    /// Sends statements over a new connection, to a database or to the usual one; returns the rows of all of them, or
    /// what was wrong in words.
    fn ask(
        superuser: &Superuser,
        database: Option<&str>,
        sql: &str,
    ) -> impl Future<Output = std::result::Result<Vec<Row>, String>> + Send;

    /// The statement that makes a database in an encoding.
    fn database(name: &str, encoding: &str) -> String;

    /// The statement that makes a user.
    fn user(&self, name: &str, password: &str) -> String;
}

impl<Own> Setup<Own>
where
    Self: Sql,
{
    /// Starts a server with this on a free port, and waits until it serves.
    pub async fn start(self) -> Result<Server<Self>> {
        Server::started(self).await
    }
}

impl<Own> Clocked for Setup<Own>
where
    Self: Sql,
{
    async fn time_s(superuser: &Superuser) -> Result<i64> {
        let said = value::<Self>(superuser, Self::TIME).await?;
        said.parse().map_err(|error| Error::new(format!("port {}: the time {said}: {error}", superuser.port)))
    }
}

impl<Own> Server<Setup<Own>>
where
    Setup<Own>: Sql,
{
    /// Starts a server that stands alone on a free port and waits for no disk, and waits until it serves.
    pub async fn standalone() -> Result<Self>
    where
        Own: Default,
    {
        Setup::new().start().await
    }

    /// The URL of the superuser's way to a database: `postgres://postgres@127.0.0.1:20001/postgres`.
    pub fn url(&self, database: &str) -> String {
        self.url_as(Setup::SUPERUSER, self.setup.password.as_deref(), database)
    }

    /// The URL of a user's way to a database.
    pub fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        url(Setup::SCHEME, self.address(), user, password, database)
    }

    /// Sends it statements as its superuser, over a socket in the file system; returns the rows of all of them, as
    /// text. Several statements are one transaction of PostgreSQL.
    pub async fn ask(&self, sql: &str) -> Result<Vec<Row>> {
        ask::<Setup<Own>>(&self.operator, None, sql).await
    }

    /// Sends it statements in a database.
    pub async fn ask_in(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        ask::<Setup<Own>>(&self.operator, Some(database), sql).await
    }

    /// The first value of the answer, as text.
    pub async fn value(&self, sql: &str) -> Result<String> {
        value::<Setup<Own>>(&self.operator, sql).await
    }

    /// Makes a database in an encoding, as `UTF8` or `latin1`.
    pub async fn create_database(&self, name: &str, encoding: &str) -> Result<()> {
        self.ask(&Setup::database(name, encoding)).await.map(drop)
    }

    /// Makes a user who may connect, and nothing else.
    pub async fn create_user(&self, name: &str, password: &str) -> Result<()> {
        self.ask(&self.setup.user(name, password)).await.map(drop)
    }
}

pub(crate) async fn ask<S: Sql>(superuser: &Superuser, database: Option<&str>, sql: &str) -> Result<Vec<Row>> {
    let answer = time::timeout(ANSWERED_WITHIN, S::ask(superuser, database, sql)).await;
    let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {ANSWERED_WITHIN:?}")));
    let of = database.unwrap_or_default();
    answer.map_err(|error| Error::new(format!("port {}, database {of}: {sql}: {error}", superuser.port)))
}

async fn value<S: Sql>(superuser: &Superuser, sql: &str) -> Result<String> {
    let first = ask::<S>(superuser, None, sql).await?.into_iter().flatten().next();
    first.flatten().ok_or_else(|| Error::new(format!("port {}: {sql}: no value", superuser.port)))
}

pub(crate) fn url(scheme: &str, address: SocketAddr, user: &str, password: Option<&str>, database: &str) -> String {
    let password = password.map(|password| format!(":{}", encoded(password))).unwrap_or_default();
    format!("{scheme}://{}{password}@{address}/{}", encoded(user), encoded(database))
}

/// A text as URLs have it: all but letters and digits, by percent signs.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
