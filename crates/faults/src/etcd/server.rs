//! One real server: its process and its folder.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::time;

use super::setup::{ALONE, Pace, Place, SLOW, Setup};
use super::{Release, asking};
use crate::authority::Papers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::{Error, Result, wait};

/// How long a server may take until it serves. A fifth of a second is usual.
pub(super) const SERVING_WITHIN: Duration = wait::PATIENCE;

/// How long a server may take to end when asked to, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// How long one of many looks at who leads may take: a server that stands still accepts connections, and one that works
/// needs a moment of a busy processor.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// How much of a server's log goes into an error.
const LOG_TAIL_BYTES: usize = 2_000;

/// One etcd server; dropping it kills it and removes its data.
///
/// Its data stays in memory, unless it is measured: etcd makes each write wait until the disk has it, and a disk that
/// is busy with other things for some seconds ends leases.
#[derive(Debug)]
pub struct Server {
    folder: Scratch,
    setup: Setup,
    process: Option<Process>,
}

impl Server {
    /// Starts Debian's server, which stands alone on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended or did not serve within two minutes; the error ends with its log.
    pub async fn standalone() -> Result<Self> {
        Self::alone(Release::Debian, None, Scratch::in_memory()?).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    ///
    /// # Errors
    ///
    /// As [`standalone`](Self::standalone).
    pub async fn standalone_on_disk() -> Result<Self> {
        Self::alone(Release::Debian, None, Scratch::new()?).await
    }

    /// Starts such a server of a release.
    ///
    /// # Errors
    ///
    /// As [`standalone`](Self::standalone).
    pub async fn standalone_of(release: Release) -> Result<Self> {
        Self::alone(release, None, Scratch::in_memory()?).await
    }

    /// Starts such a server that speaks TLS, and asks clients for their certificates.
    ///
    /// # Errors
    ///
    /// As [`standalone`](Self::standalone).
    pub async fn over_tls(papers: Papers) -> Result<Self> {
        Self::alone(Release::Debian, Some(papers), Scratch::in_memory()?).await
    }

    /// Starts such a server that grants no lease of less than eight seconds.
    ///
    /// # Errors
    ///
    /// As [`standalone`](Self::standalone).
    pub async fn standalone_of_long_leases() -> Result<Self> {
        Self::paced(Release::Debian, None, Scratch::in_memory()?, SLOW).await
    }

    async fn alone(release: Release, papers: Option<Papers>, folder: Scratch) -> Result<Self> {
        Self::paced(release, papers, folder, ALONE).await
    }

    async fn paced(release: Release, papers: Option<Papers>, folder: Scratch, pace: Pace) -> Result<Self> {
        let place = Place::on_loopback("alone".to_owned())?;
        let members = place.as_member();
        let setup = Setup { release, place, members, pace, papers };
        let mut server = Self { folder, setup, process: None };
        server.start()?;
        server.serving().await?;
        Ok(server)
    }

    /// Makes the folder of a server; starts nothing.
    pub(super) fn prepare(setup: Setup) -> Result<Self> {
        Ok(Self { folder: Scratch::in_memory()?, setup, process: None })
    }

    /// Which etcd it is.
    pub fn release(&self) -> Release {
        self.setup.release
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.setup.place.clients
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
        let log = || File::options().create(true).append(true).open(self.log_path());
        let (out, err) = (log(), log());
        let mut command = self.setup.command(&self.data_folder())?;
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(out.map_err(Error::io("the server's log"))?)
            .stderr(err.map_err(Error::io("the server's log"))?);
        self.process = Some(Process::start(command)?);
        Ok(())
    }

    /// Waits until it has a leader and serves clients.
    ///
    /// # Errors
    ///
    /// It ended, or two minutes passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<()> {
        let (address, health) = (self.address(), self.setup.place.health);
        let found = wait::until(&format!("{address} serving"), SERVING_WITHIN, async || {
            if !self.process.as_mut().is_some_and(Process::is_running) {
                return Some(false);
            }
            asking::ask(health, "GET", "/health", "").await.ok().filter(|health| health.contains("true")).map(|_| true)
        })
        .await;
        match found {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(format!("{address} has ended:\n{}", self.log_tail()))),
            Err(error) => Err(Error::new(format!("{error}:\n{}", self.log_tail()))),
        }
    }

    /// Asks it in JSON: the path of a call, as `/v3/kv/range`, and its request.
    ///
    /// # Errors
    ///
    /// There was no answer in time, or it was refused.
    pub async fn ask(address: SocketAddr, path: &str, request: &str) -> Result<String> {
        asking::ask(address, "POST", path, request).await
    }

    /// Asks it as a user who has logged in and was given this token.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn ask_as(address: SocketAddr, token: &str, path: &str, request: &str) -> Result<String> {
        asking::ask_as(address, token, path, request).await
    }

    /// Whether it takes itself for the leader, if it answers at once. One that was cut off from the others does so for
    /// a while.
    pub(super) async fn leads_at_a_look(&self) -> Option<bool> {
        let asking = Self::ask(self.address(), "/v3/maintenance/status", "{}");
        let status = time::timeout(LOOK_WITHIN, asking).await.ok()?.ok()?;
        Some(asking::number(&status, "leader")? == asking::number(&status, "member_id")?)
    }

    /// How many elections its cluster has held, won or not (Raft's term).
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask); or its answer names no term.
    pub async fn term(&self) -> Result<u64> {
        let status = Self::ask(self.address(), "/v3/maintenance/status", "{}").await?;
        asking::number(&status, "raft_term").ok_or_else(|| Error::new(format!("no term in {status}")))
    }

    /// Kills it (SIGKILL); its data stays for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends it as an operator would (SIGTERM), and kills it if it takes longer than ten seconds; its data stays.
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take()
            && process.terminate().is_ok()
        {
            // Dropping the process kills one that did not end in time.
            let _ = process.exited(STOPPED_WITHIN).await;
        }
    }

    /// Stops it, starts it again with its data on the same port, and waits until it serves.
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
        self.forget()?;
        self.start()?;
        self.serving().await
    }

    /// Removes the data of a server that does not run.
    pub(super) fn forget(&self) -> Result<()> {
        let data = self.data_folder();
        fs::remove_dir_all(&data).map_err(Error::io(data.display()))
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

    /// Itself as the only member of its cluster; its name; and where its peers would reach it.
    pub(super) fn as_member(&self) -> (String, String, String) {
        let place = &self.setup.place;
        (place.as_member(), place.name.clone(), format!("http://{}", place.peers))
    }

    pub(super) fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
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
