//! One real server: its processes and its folder.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::asking::{DATABASE, SUPERUSER, Superuser, identifier, literal};
use super::{Setup, programs};
use crate::daemon::{self, Daemon, Row};
use crate::process::Process;
use crate::{Error, Result, clock, data, template};

/// How the first data are made: by a superuser who needs no password; in Unicode, and sorted by bytes.
const INITDB: [&str; 5] = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];

/// Where the data lie, in the server's folder.
pub(super) const DATA: &str = "data";

/// One PostgreSQL server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    pub(super) daemon: Daemon,
    pub(super) setup: Setup,
}

impl Server {
    /// Starts a server that stands alone on a free port and flushes nothing, and waits until it serves.
    ///
    /// # Errors
    ///
    /// As [`Setup::start`].
    pub async fn standalone() -> Result<Self> {
        Setup::new().start().await
    }

    /// Reserves the folder and port of a server; starts nothing.
    pub(super) fn prepare(setup: Setup) -> Result<Self> {
        Ok(Self { daemon: Daemon::new(setup.ground.clone())?, setup })
    }

    /// Gives it its first data and its configuration.
    pub(super) fn fill(&self) -> Result<()> {
        let arguments =
            |data: &Path| INITDB.into_iter().chain(["--pgdata"]).map(OsString::from).chain([data.into()]).collect();
        template::copy("postgres", &programs::find("initdb")?, arguments, &self.data_folder())?;
        self.configure()
    }

    pub(super) fn configure(&self) -> Result<()> {
        let papers = self.setup.papers.as_ref().map(|papers| self.daemon.take(papers)).transpose()?;
        let configuration = self.setup.configuration(&self.daemon, papers.as_ref());
        let texts = [("postgresql.conf", configuration), ("pg_hba.conf", self.setup.entrance())];
        texts.into_iter().try_for_each(|(name, text)| {
            let file = self.data_folder().join(name);
            fs::write(&file, text).map_err(Error::io(file.display()))
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// Where processes in the other namespaces of its network connect, if it is in one.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.daemon.peer_address()
    }

    /// The URL of the superuser's way to a database: `postgres://postgres@127.0.0.1:20001/postgres`.
    pub fn url(&self, database: &str) -> String {
        self.url_as(SUPERUSER, self.setup.password.as_deref(), database)
    }

    /// The URL of a user's way to a database.
    pub fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        daemon::url("postgres", self.address(), user, password, database)
    }

    /// The process id of the first process, while it runs.
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
        let mut command = self.daemon.command(&programs::find("postgres")?);
        command.arg("-D").arg(self.data_folder());
        self.daemon.start(command)
    }

    /// Waits until it answers.
    ///
    /// # Errors
    ///
    /// It ended, or two minutes passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<()> {
        let superuser = self.superuser();
        self.daemon.serving(async || superuser.ask(DATABASE, "SELECT 1").await.ok().map(drop)).await
    }

    /// Sends it statements as its superuser, in the database `postgres`, over a socket in the file system; returns the
    /// rows of all of them, as text. Several statements are one transaction.
    ///
    /// # Errors
    ///
    /// There was no answer within a minute, or it was an error.
    pub async fn ask(&self, sql: &str) -> Result<Vec<Row>> {
        self.ask_in(DATABASE, sql).await
    }

    /// Sends it statements in another database.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn ask_in(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        self.superuser().ask(database, sql).await
    }

    /// The first value of the answer, as text.
    ///
    /// # Errors
    ///
    /// There is none, or it is NULL; else as [`ask`](Self::ask).
    pub async fn value(&self, sql: &str) -> Result<String> {
        self.value_in(DATABASE, sql).await
    }

    /// The first value of the answer in another database, as text.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value).
    pub async fn value_in(&self, database: &str, sql: &str) -> Result<String> {
        let first = self.ask_in(database, sql).await?.into_iter().flatten().next();
        first.flatten().ok_or_else(|| Error::new(format!("{}: {sql}: no value", self.address())))
    }

    /// Makes a database in an encoding, as `UTF8` or `LATIN1`.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn create_database(&self, name: &str, encoding: &str) -> Result<()> {
        let (name, encoding) = (identifier(name), literal(encoding));
        let sql = format!("CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0");
        self.ask(&sql).await.map(drop)
    }

    /// Makes a user who may connect, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn create_user(&self, name: &str, password: &str) -> Result<()> {
        self.ask(&format!("CREATE USER {} PASSWORD {}", identifier(name), literal(password))).await.map(drop)
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
        let said = self.value("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint").await?;
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

    /// Kills all its processes (SIGKILL); its data stay for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Ends it as an operator would who waits for no client (`fast`), and kills it if it takes longer than ten seconds;
    /// its data stay.
    pub async fn stop(&mut self) {
        self.daemon.stop(Process::interrupt).await;
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

    /// Stops all its processes (SIGSTOP); its sockets stay open.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.daemon.pause()
    }

    /// Lets its processes go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.daemon.resume()
    }

    /// Who may do all, and the password if one is wanted.
    pub(crate) fn superuser_login(&self) -> (&str, Option<&str>) {
        (SUPERUSER, self.setup.password.as_deref())
    }

    /// The folder of its socket.
    pub(crate) fn socket_folder(&self) -> &Path {
        self.daemon.folder()
    }

    fn superuser(&self) -> Superuser {
        Superuser { folder: self.daemon.folder().to_owned(), port: self.address().port() }
    }

    pub(super) fn data_folder(&self) -> PathBuf {
        self.daemon.folder().join(DATA)
    }
}
