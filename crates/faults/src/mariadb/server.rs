//! One real server: its process and its folder.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Setup;
use super::asking::{SUPERUSER, Superuser, identifier, literal};
use super::programs::{INSTALL, SERVER};
use super::setup::LOG_SIZE;
use crate::authority::Papers;
use crate::daemon::{self, Daemon, Row};
use crate::ports::ReservedPort;
use crate::process::Process;
use crate::{Error, Result, clock, data, template};

/// How the first data are made: by a superuser who needs no password over the socket.
const MAKING: [&str; 5] =
    ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", LOG_SIZE];

/// One MariaDB server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    pub(super) daemon: Daemon,
    pub(super) setup: Setup,
    papers: Option<Papers>,
    more_ports: Vec<ReservedPort>,
}

impl Server {
    /// Starts a server that stands alone on a free port and flushes once a second, and waits until it serves.
    ///
    /// # Errors
    ///
    /// As [`Setup::start`].
    pub async fn standalone() -> Result<Self> {
        Setup::new().start().await
    }

    /// Makes a server with its first data; starts nothing.
    pub(super) fn prepare(setup: Setup) -> Result<Self> {
        let daemon = Daemon::new(setup.ground.clone())?;
        let papers = setup.papers.as_ref().map(|papers| daemon.take(papers)).transpose()?;
        let more_ports = setup.more_ports()?;
        let this = Self { daemon, setup, papers, more_ports };
        let arguments = |data: &Path| {
            let at = |name: &str, folder: &Path| {
                let mut argument = OsString::from(name);
                argument.push(folder);
                argument
            };
            // As when it is started: temporary tables of other servers are left alone.
            let places = [at("--datadir=", data), at("--tmpdir=", data.parent().unwrap_or(data))];
            MAKING.map(OsString::from).into_iter().chain(places).collect()
        };
        template::copy("mariadb", Path::new(INSTALL), arguments, &this.data_folder())?;
        let file = this.first_words();
        fs::write(&file, this.setup.first_words()).map_err(Error::io(file.display()))?;
        Ok(this)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// Where processes in the other namespaces of its network connect, if it is in one.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.daemon.peer_address()
    }

    /// The URL of the superuser's way to a database: `mariadb://root@127.0.0.1:20001/test`.
    pub fn url(&self, database: &str) -> String {
        self.url_as(SUPERUSER, self.setup.password.as_deref(), database)
    }

    /// The URL of a user's way to a database.
    pub fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        daemon::url("mariadb", self.address(), user, password, database)
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// Starts it and does not wait; one that runs is left alone.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(&mut self) -> Result<()> {
        if self.daemon.is_running() {
            return Ok(());
        }
        let (socket, data, first_words) = (self.socket(), self.data_folder(), self.first_words());
        let mut command = self.daemon.command(Path::new(SERVER));
        command
            .args(self.setup.arguments(&self.daemon, self.papers.as_ref(), &self.more_ports))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--datadir={}", data.display()))
            // A server that starts removes temporary tables from there, those of another server too.
            .arg(format!("--tmpdir={}", self.daemon.folder().display()))
            .arg(format!("--init-file={}", first_words.display()));
        self.daemon.start(command)
    }

    /// Waits until it answers.
    ///
    /// # Errors
    ///
    /// It ended, or two minutes passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<()> {
        let superuser = self.superuser();
        self.daemon.serving(async || superuser.ask(None, "SELECT 1").await.ok().map(drop)).await
    }

    /// Sends it statements as its superuser, over a socket in the file system; returns the rows of all of them, as
    /// text.
    ///
    /// # Errors
    ///
    /// There was no answer within a minute, or it was an error.
    pub async fn ask(&self, sql: &str) -> Result<Vec<Row>> {
        self.superuser().ask(None, sql).await
    }

    /// Sends it statements in a database.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn ask_in(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        self.superuser().ask(Some(database), sql).await
    }

    /// The first value of the answer, as text.
    ///
    /// # Errors
    ///
    /// There is none, or it is NULL; else as [`ask`](Self::ask).
    pub async fn value(&self, sql: &str) -> Result<String> {
        let first = self.ask(sql).await?.into_iter().flatten().next();
        first.flatten().ok_or_else(|| Error::new(format!("{}: {sql}: no value", self.address())))
    }

    /// Makes a database in an encoding, as `utf8mb4` or `latin1`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn create_database(&self, name: &str, encoding: &str) -> Result<()> {
        let sql = format!("CREATE DATABASE {} CHARACTER SET {}", identifier(name), literal(encoding));
        self.ask(&sql).await.map(drop)
    }

    /// Makes a user who may connect, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn create_user(&self, name: &str, password: &str) -> Result<()> {
        let certificate = if self.papers.is_some() { "REQUIRE X509" } else { "" };
        let sql = format!("CREATE USER {}@'%' IDENTIFIED BY {} {certificate}", identifier(name), literal(password));
        self.ask(&sql).await.map(drop)
    }

    /// Moves its clock to this many seconds ahead of the machine's (behind it, if negative), and waits until it tells
    /// that time. Its timers go on as before.
    ///
    /// # Errors
    ///
    /// It was set up without a [movable clock](Setup::movable_clock); or does not tell the new time within two minutes.
    pub async fn move_clock(&self, ahead_s: i64) -> Result<()> {
        clock::move_to(self.daemon.folder(), ahead_s, self.address(), async || self.time_s().await).await
    }

    /// The time of its clock, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn time_s(&self) -> Result<i64> {
        let said = self.value("SELECT UNIX_TIMESTAMP()").await?;
        said.parse().map_err(|error| Error::new(format!("{}: the time {said}: {error}", self.address())))
    }

    /// Takes all the room on its file system.
    ///
    /// # Errors
    ///
    /// It was set up without [limited room](Setup::room_bytes).
    pub fn fill_disk(&self) -> Result<()> {
        self.daemon.fill_disk()
    }

    /// Gives the room back that [`fill_disk`](Self::fill_disk) took.
    ///
    /// # Errors
    ///
    /// It took none.
    pub fn free_disk(&self) -> Result<()> {
        self.daemon.free_disk()
    }

    /// Kills it (SIGKILL); its data stay for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Ends it as an operator would (SIGTERM), and kills it if it takes longer than ten seconds; its data stay.
    pub async fn stop(&mut self) {
        self.daemon.stop(Process::terminate).await;
    }

    /// Stops it, starts it again on the same port with its data, and waits until it serves.
    ///
    /// # Errors
    ///
    /// As [`serving`](Self::serving).
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await;
        self.start()?;
        self.serving().await
    }

    /// Copies its data as the disk has them now: cold if it was [stopped](Self::stop), or as a snapshot of its volume
    /// if it is [paused](Self::pause).
    ///
    /// # Errors
    ///
    /// They could not be copied.
    pub fn copy_data(&self) -> Result<()> {
        data::copy(&self.data_folder())
    }

    /// Puts the copy into the place of its data. It does not run.
    ///
    /// # Errors
    ///
    /// There is no copy.
    pub fn put_data_back(&self) -> Result<()> {
        data::put_back(&self.data_folder())
    }

    /// Stops the process (SIGSTOP); its sockets stay open.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.daemon.pause()
    }

    /// Lets the process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.daemon.resume()
    }

    fn superuser(&self) -> Superuser {
        Superuser { socket: self.socket() }
    }

    fn socket(&self) -> PathBuf {
        self.daemon.folder().join("socket")
    }

    /// The file with the statements of each start.
    fn first_words(&self) -> PathBuf {
        self.daemon.folder().join("first.sql")
    }

    fn data_folder(&self) -> PathBuf {
        self.daemon.folder().join("data")
    }
}
