//! One real server: its process and its folder.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use redis::FromRedisValue;

use super::asking::{self, Operator};
use super::setup::{DATA, Place, SOCKET, Setup};
use crate::clock::{self, Leftovers};
use crate::ports::ReservedPort;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{Error, Result, wait};

/// How long a server may take until it serves. A tenth of a second is usual.
pub(super) const SERVING_WITHIN: Duration = wait::PATIENCE;

/// How long a server may take to end when asked to, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// How much of a server's log goes into an error.
const LOG_TAIL_BYTES: usize = 2_000;

/// One Redis server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    folder: Scratch,
    setup: Setup,
    place: Place,
    running: Option<Running>,
}

/// The fields are dropped in this order.
#[derive(Debug)]
struct Running {
    process: Process,
    _leftovers: Option<Leftovers>,
}

impl Server {
    /// Starts Debian's server without persistence, which stands alone on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// As [`Setup::start`].
    pub async fn standalone() -> Result<Self> {
        Setup::new().start().await
    }

    /// Makes the folder of a server with its configuration, which the server itself may change later; starts nothing.
    pub(super) fn prepare(setup: Setup) -> Result<Self> {
        let (folder, place) = (setup.folder()?, setup.place()?);
        let this = Self { folder, setup, place, running: None };
        let file = this.configuration();
        fs::write(&file, this.setup.configuration(&this.place, this.folder.path()))
            .map_err(Error::io(file.display()))?;
        if this.setup.has_clock {
            clock::set(this.folder.path(), 0)?;
        }
        Ok(this)
    }

    /// What it was started with.
    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.place.clients.address()
    }

    /// Where the other members of its cluster reach it.
    pub(super) fn members_address(&self) -> Option<SocketAddr> {
        self.place.members.as_ref().map(ReservedPort::address)
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.process.id())
    }

    /// Starts the process and does not wait; one that runs is left alone.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(&mut self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let data = self.data_folder();
        fs::create_dir_all(&data).map_err(Error::io(data.display()))?;
        let log = || File::options().create(true).append(true).open(self.log_path());
        let (out, err) = (log(), log());
        let mut command = self.setup.command(self.folder.path(), &self.configuration())?;
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(out.map_err(Error::io("the server's log"))?)
            .stderr(err.map_err(Error::io("the server's log"))?);
        let process = Process::start(command)?;
        let leftovers = self.setup.has_clock.then(|| Leftovers(process.id()));
        self.running = Some(Running { process, _leftovers: leftovers });
        Ok(())
    }

    /// Waits until it answers, with its data loaded.
    ///
    /// # Errors
    ///
    /// It ended, or two minutes passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<()> {
        let (address, operator) = (self.address(), self.operator());
        let found = wait::until(&format!("{address} serving"), SERVING_WITHIN, async || {
            if !self.is_running() {
                return Some(false);
            }
            operator.ask::<String>(&["PING"]).await.ok().map(|_| true)
        })
        .await;
        match found {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(format!("{address} has ended:\n{}", self.log_tail()))),
            Err(error) => Err(Error::new(format!("{error}:\n{}", self.log_tail()))),
        }
    }

    /// Sends it one command as its operator, over a socket in the file system; returns the answer, as the crate `redis`
    /// reads it into a type.
    ///
    /// # Errors
    ///
    /// There was no answer within a minute, it was an error, or is not of this type.
    pub async fn ask<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]> + Sync]) -> Result<T> {
        self.operator().ask(words).await
    }

    /// One field of what `INFO` says.
    ///
    /// # Errors
    ///
    /// There is no such field; else as [`ask`](Self::ask).
    pub async fn info(&self, field: &str) -> Result<String> {
        let info: String = self.ask(&["INFO", "everything"]).await?;
        let found = asking::field(&info, field);
        found.ok_or_else(|| Error::new(format!("{} tells no {field}", self.address())))
    }

    /// Waits until this replica follows its master.
    ///
    /// # Errors
    ///
    /// It does not within two minutes; the error ends with its log.
    pub async fn replicating(&self) -> Result<()> {
        wait::until(&format!("{} replicating", self.address()), SERVING_WITHIN, async || {
            (self.info("master_link_status").await.ok()? == "up").then_some(())
        })
        .await
        .map_err(|error| Error::new(format!("{error}:\n{}", self.log_tail())))
    }

    /// Makes this replica a master, for its next starts too.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn promote(&self) -> Result<()> {
        self.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await?;
        self.ask(&["CONFIG", "REWRITE"]).await
    }

    /// Moves its clock to this many seconds ahead of the machine's (behind it, if negative), and waits until it tells
    /// that time. Its timers go on as before.
    ///
    /// # Errors
    ///
    /// It was set up without a [movable clock](Setup::movable_clock); or does not tell the new time within two minutes.
    pub async fn move_clock(&self, ahead_s: i64) -> Result<()> {
        clock::move_to(self.folder.path(), ahead_s, self.address(), async || self.time_s().await).await
    }

    /// The time of its clock, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn time_s(&self) -> Result<i64> {
        let (seconds, _microseconds): (i64, i64) = self.ask(&["TIME"]).await?;
        Ok(seconds)
    }

    /// Kills it (SIGKILL); what it has on the disk stays for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Ends it as an operator would (SIGTERM), and kills it if it takes longer than ten seconds; what it has on the
    /// disk stays.
    pub async fn stop(&mut self) {
        if let Some(mut running) = self.running.take()
            && running.process.terminate().is_ok()
        {
            // Dropping the process kills one that did not end in time.
            let _ = running.process.exited(STOPPED_WITHIN).await;
        }
    }

    /// Stops it, starts it again on the same port with what it has on the disk, and waits until it serves.
    ///
    /// # Errors
    ///
    /// As [`serving`](Self::serving).
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await;
        self.start()?;
        self.serving().await
    }

    /// Stops it, and starts it again on the same port without any data.
    ///
    /// # Errors
    ///
    /// As [`serving`](Self::serving).
    pub async fn wipe(&mut self) -> Result<()> {
        self.stop().await;
        let data = self.data_folder();
        fs::remove_dir_all(&data).map_err(Error::io(data.display()))?;
        self.start()?;
        self.serving().await
    }

    /// Stops the process (SIGSTOP); its sockets stay open.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.running()?.pause()
    }

    /// Lets the process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.running()?.resume()
    }

    fn running(&mut self) -> Result<&mut Process> {
        let address = self.address();
        let running = self.running.as_mut().map(|running| &mut running.process);
        running.ok_or_else(|| Error::new(format!("{address} does not run")))
    }

    fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.process.is_running())
    }

    fn operator(&self) -> Operator {
        Operator { socket: self.folder.path().join(SOCKET), password: self.setup.password.clone() }
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("redis.conf")
    }

    fn data_folder(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// The end of what it wrote to its log.
    fn log_tail(&self) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}
