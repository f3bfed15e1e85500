//! One real server: its process and its folder.
//!
//! `ensemble` knows its peers; `asking` asks it.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::time;

use super::JAVA_OPTIONS;
use super::asking::{Role, ServerWords};
use super::setup::{Member, Setup};
use crate::ports::ReservedPort;
use crate::process::{self, Process};
use crate::scratch::Scratch;
use crate::{Error, Result, wait};

/// How long a server may take until it serves. Half a second is usual.
pub(super) const SERVING_WITHIN: Duration = wait::PATIENCE;

/// How long a server may take to end when asked to, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// How long one of many looks at a server's role may take: a server that is starting can accept a connection and forget
/// it, and one that works needs a moment of a busy processor.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// How much of a server's log goes into an error.
const LOG_TAIL_BYTES: usize = 2_000;

/// One Apache ZooKeeper; dropping it kills it and removes its data. Its [`ServerWords`] ask it about itself.
///
/// Its data stays in memory, unless it is measured: ZooKeeper makes each write wait until the disk has it, and a disk
/// that is busy with other things for some seconds ends sessions.
#[derive(Debug)]
pub struct Server {
    words: ServerWords,
    home: Home,
    setup: Setup,
    process: Option<Process>,
}

/// What outlives a restart: the folder, the namespace and the ports.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) folder: Scratch,
    pub(super) namespace: Option<String>,
    pub(super) ports: Vec<ReservedPort>,
}

impl Home {
    pub(super) fn in_memory(namespace: Option<String>, ports: Vec<ReservedPort>) -> Result<Self> {
        Ok(Self { folder: Scratch::in_memory()?, namespace, ports })
    }
}

impl Server {
    /// Starts a server that stands alone on a free port, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It ended or did not serve within two minutes; the error ends with its log.
    pub async fn standalone(setup: Setup) -> Result<Self> {
        Self::alone(setup, Scratch::in_memory()?).await
    }

    /// Starts such a server whose data is on the disk, for measuring.
    ///
    /// # Errors
    ///
    /// As [`standalone`](Self::standalone).
    pub async fn standalone_on_disk(setup: Setup) -> Result<Self> {
        Self::alone(setup, Scratch::new()?).await
    }

    async fn alone(setup: Setup, folder: Scratch) -> Result<Self> {
        let port = ReservedPort::take()?;
        let address = port.address();
        let home = Home { folder, namespace: None, ports: vec![port] };
        let mut server = Self::prepare(setup, address, address.ip(), home, &[], 1)?;
        server.start()?;
        server.serving().await?;
        Ok(server)
    }

    /// Writes the folder of a server that is reached at `address` and listens on `listen`; starts nothing.
    pub(super) fn prepare(
        setup: Setup,
        address: SocketAddr,
        listen: IpAddr,
        home: Home,
        members: &[Member],
        number: usize,
    ) -> Result<Self> {
        let data = home.folder.path().join("data");
        let write = |path: &Path, text: &str| fs::write(path, text).map_err(Error::io(path.display()));
        fs::create_dir(&data).map_err(Error::io(data.display()))?;
        write(&data.join("myid"), &number.to_string())?;
        let configuration = setup.configuration(&data, listen, address.port(), members);
        write(&home.folder.path().join("zoo.cfg"), &configuration)?;
        Ok(Self { words: ServerWords::new(address), home, setup, process: None })
    }

    /// The folder that holds its snapshots and transaction log, for a test that tampers with them while it is down.
    pub fn data_folder(&self) -> PathBuf {
        self.home.folder.path().join("data")
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts the process and does not wait; one that runs is left alone.
    ///
    /// # Errors
    ///
    /// Java could not be started.
    pub fn start(&mut self) -> Result<()> {
        if self.process.as_mut().is_some_and(Process::is_running) {
            return Ok(());
        }
        let folder = self.home.folder.path();
        let log = || File::options().create(true).append(true).open(self.log_path());
        let (out, err) = (log(), log());
        let mut command = match &self.home.namespace {
            Some(namespace) => process::command_in_namespace(namespace, "java"),
            None => process::command("java"),
        };
        command
            .args(JAVA_OPTIONS)
            .args(self.setup.java_properties())
            .args(["-cp", &self.setup.class_path()])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(folder.join("zoo.cfg"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.map_err(Error::io("the server's log"))?)
            .stderr(err.map_err(Error::io("the server's log"))?);
        self.process = Some(Process::start(command)?);
        Ok(())
    }

    /// Waits until it has a role and serves clients.
    ///
    /// # Errors
    ///
    /// It ended, or two minutes passed; the error ends with its log.
    pub async fn serving(&mut self) -> Result<Role> {
        let what = format!("{} serving", self.address());
        let mut ended = false;
        let found = wait::until(&what, SERVING_WITHIN, async || {
            ended = !self.process.as_mut().is_some_and(Process::is_running);
            let role = self.role_at_a_look().await;
            (ended || role.is_some()).then_some(role)
        })
        .await;
        match found {
            Ok(Some(role)) => Ok(role),
            Ok(None) => Err(Error::new(format!("{} has ended:\n{}", self.address(), self.log_tail()))),
            Err(error) => Err(Error::new(format!("{error}:\n{}", self.log_tail()))),
        }
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
    pub async fn restart(&mut self) -> Result<Role> {
        self.stop().await;
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

    /// Its role, if it answers at once; for repeated looks.
    pub(super) async fn role_at_a_look(&self) -> Option<Role> {
        time::timeout(LOOK_WITHIN, self.role()).await.ok()?.ok()
    }

    fn log_path(&self) -> PathBuf {
        self.home.folder.path().join("server.log")
    }

    /// The end of what it wrote to its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

impl Deref for Server {
    type Target = ServerWords;

    fn deref(&self) -> &ServerWords {
        &self.words
    }
}
