//! One real server: its process and its folder.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use redis::FromRedisValue;

use super::asking::{self, Operator};
use super::setup::{DATA, SOCKET, Setup};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{Error, Result, wait};

/// How long a server may take until it serves. A tenth of a second is usual; a loaded machine takes longer.
pub(super) const SERVING_WITHIN: Duration = Duration::from_secs(60);

/// How long a server may take to end when asked to, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// How much of a server's log goes into an error.
const LOG_TAIL_BYTES: usize = 2_000;

/// One Redis server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server {
    folder: Scratch,
    setup: Setup,
    process: Option<Process>,
}

impl Server {
    /// Starts Debian's server without persistence, which stands alone on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended or did not serve within a minute; the error ends with its log.
    pub async fn standalone() -> Result<Self> {
        let mut server = Self { folder: Scratch::in_memory()?, setup: Setup::new()?, process: None };
        server.start()?;
        server.serving().await?;
        Ok(server)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.setup.port.address()
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts the process and does not wait; one that runs is left alone.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(&mut self) -> Result<()> {
        if self.process.as_mut().is_some_and(Process::is_running) {
            return Ok(());
        }
        let data = self.data_folder();
        fs::create_dir_all(&data).map_err(Error::io(data.display()))?;
        let log = || File::options().create(true).append(true).open(self.log_path());
        let (out, err) = (log(), log());
        let mut command = self.setup.command(self.folder.path());
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(out.map_err(Error::io("the server's log"))?)
            .stderr(err.map_err(Error::io("the server's log"))?);
        self.process = Some(Process::start(command)?);
        Ok(())
    }

    /// Waits until it answers, with its data loaded.
    ///
    /// # Errors
    ///
    /// It ended, or a minute passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<()> {
        let (address, operator) = (self.address(), self.operator());
        let found = wait::until(&format!("{address} serving"), SERVING_WITHIN, async || {
            if !self.process.as_mut().is_some_and(Process::is_running) {
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
    /// There was no answer within ten seconds, it was an error, or is not of this type.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
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

    /// Kills it (SIGKILL); what it has on the disk stays for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends it as an operator would (SIGTERM), and kills it if it takes longer than ten seconds; what it has on the
    /// disk stays.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.terminate().is_ok()
        {
            // Dropping the process kills one that did not end in time.
            let _ = process.exited(STOPPED_WITHIN).await;
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
        self.process.as_mut().ok_or_else(|| Error::new(format!("{address} does not run")))
    }

    fn operator(&self) -> Operator {
        Operator { socket: self.folder.path().join(SOCKET) }
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
