//! One real server of any kind: its process, and the folder and ports that it keeps when it is stopped, killed or
//! started again.
//!
//! What it is started with, and how it is asked, its module says in a [`Kind`].

use std::fmt::Debug;
use std::fs;
use std::future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use crate::daemon::{Daemon, Ground};
use crate::process::Process;
use crate::{Availability, Error, Result, clock, data};

/// A kind of server: what one of it is started with.
pub trait Kind: Debug + Send + Sync + Sized {
    /// The client of an operator, which asks it past all others.
    type Operator: Debug + Send + Sync;

    /// Whether its programs are here.
    fn availability(&self) -> Availability;

    /// What it runs on.
    fn ground(&self) -> Ground;

    /// Its operator, who need not find it running.
    fn operator(&self, daemon: &Daemon) -> Self::Operator;

    /// Makes its first data, and the files that it changes itself.
    fn fill(&self, daemon: &Daemon) -> Result<()>;

    /// The command that starts it.
    fn command(&self, daemon: &Daemon) -> Result<Command>;

    /// Whether it serves clients now.
    fn serves(operator: &Self::Operator) -> impl Future<Output = bool> + Send;

    /// Tells it what it is told once, when it serves first.
    fn begin(&self, _: &Self::Operator) -> impl Future<Output = Result<()>> + Send {
        future::ready(Ok(()))
    }

    /// Asks it to end, as an operator does who waits for no client.
    fn end(process: &mut Process) -> Result<()> {
        process.terminate()
    }
}

/// A kind of server whose clock can be moved.
pub trait Clocked: Kind {
    /// The time of its clock, in seconds since 1970.
    fn time_s(operator: &Self::Operator) -> impl Future<Output = Result<i64>> + Send;
}

/// One server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Server<K: Kind> {
    pub(crate) daemon: Daemon,
    pub(crate) setup: K,
    pub(crate) operator: K::Operator,
}

impl<K: Kind> Server<K> {
    /// Starts one for the test that asks, which goes on only if there is one: else it is skipped, by the name that the
    /// harness gave to its thread.
    pub async fn start_or_skip(setup: K) -> Option<Self> {
        if !setup.ground().availability().and(|| setup.availability()).or_skip_here() {
            return None;
        }
        Some(Self::started(setup).await.expect("a server"))
    }

    /// Starts one and waits until it serves.
    pub(crate) async fn started(setup: K) -> Result<Self> {
        let mut this = Self::prepare(setup)?;
        this.start()?;
        this.serving().await?;
        this.setup.begin(&this.operator).await?;
        Ok(this)
    }

    /// Makes one with its first data; starts nothing.
    pub(crate) fn prepare(setup: K) -> Result<Self> {
        let this = Self::on(Daemon::new(setup.ground())?, setup);
        this.setup.fill(&this.daemon)?;
        Ok(this)
    }

    /// Makes one without data; starts nothing.
    pub(crate) fn on(daemon: Daemon, setup: K) -> Self {
        Self { operator: setup.operator(&daemon), daemon, setup }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The id of its first process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// Where its data lie, for a test that tampers with them while it is down.
    pub fn data_folder(&self) -> PathBuf {
        self.daemon.data_folder()
    }

    /// Starts it and does not wait; one that runs is left alone.
    pub fn start(&mut self) -> Result<()> {
        if self.daemon.is_running() {
            return Ok(());
        }
        self.daemon.start(self.setup.command(&self.daemon)?)
    }

    /// Waits until it serves clients, with its data loaded.
    pub async fn serving(&mut self) -> Result<()> {
        let operator = &self.operator;
        self.daemon.serving(async || K::serves(operator).await).await
    }

    /// Kills all its processes (SIGKILL); its data stay for [`start`](Self::start).
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Ends it as an operator would who waits for no client, and kills it if it takes longer than ten seconds; its data
    /// stay.
    pub async fn stop(&mut self) {
        self.daemon.stop(K::end).await;
    }

    /// Stops it, starts it again on the same port with its data, and waits until it serves.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await;
        self.start()?;
        self.serving().await
    }

    /// Stops it, and starts it again on the same port with its first data.
    pub async fn wipe(&mut self) -> Result<()> {
        self.stop().await;
        self.forget()?;
        self.setup.fill(&self.daemon)?;
        self.start()?;
        self.serving().await
    }

    /// Removes its data. It does not run.
    pub(crate) fn forget(&self) -> Result<()> {
        let data = self.data_folder();
        fs::remove_dir_all(&data).map_err(Error::io(data.display()))
    }

    /// Copies its data as the disk has them now: cold if it was [stopped](Self::stop), or as a snapshot of its volume
    /// if it is [paused](Self::pause).
    pub fn copy_data(&self) -> Result<()> {
        data::copy(&self.data_folder())
    }

    /// Puts the copy into the place of its data. It does not run.
    pub fn put_data_back(&self) -> Result<()> {
        data::put_back(&self.data_folder())
    }

    /// Stops all its processes (SIGSTOP); its sockets stay open.
    pub fn pause(&mut self) -> Result<()> {
        self.daemon.pause()
    }

    /// Lets its processes go on (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        self.daemon.resume()
    }

    /// Takes all the room on its file system.
    ///
    /// # Errors
    ///
    /// It was set up with room without limit.
    pub fn fill_disk(&self) -> Result<()> {
        self.daemon.fill_disk()
    }

    /// Gives the room back that [`fill_disk`](Self::fill_disk) took.
    pub fn free_disk(&self) -> Result<()> {
        self.daemon.free_disk()
    }
}

impl<K: Kind + Default> Server<K> {
    /// Starts one that stands alone for the test that asks, as [`start_or_skip`](Self::start_or_skip) does.
    pub async fn standalone_or_skip() -> Option<Self> {
        Self::start_or_skip(K::default()).await
    }
}

impl<K: Clocked> Server<K> {
    /// Moves its clock to this many seconds ahead of the machine's (behind it, if negative), and waits until it tells
    /// that time. Its timers go on as before.
    ///
    /// # Errors
    ///
    /// It was set up without a movable clock; or does not tell the new time within two minutes.
    pub async fn move_clock(&self, ahead_s: i64) -> Result<()> {
        clock::move_to(self.daemon.folder(), ahead_s, self.address(), async || self.time_s().await).await
    }

    /// The time of its clock, in seconds since 1970.
    pub async fn time_s(&self) -> Result<i64> {
        K::time_s(&self.operator).await
    }
}
