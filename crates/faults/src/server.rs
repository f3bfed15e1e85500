//! One real server of any kind: its process, and the folder and ports that it keeps when it is stopped, killed or
//! started again; and several that serve together.
//!
//! What it is started with, and how it is asked, its module says in a [`Kind`].

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, future};

use tokio::time;

use crate::daemon::{self, Daemon, Ground, Namespace, SERVING_WITHIN};
use crate::namespaces::Network;
use crate::process::{self, Process};
use crate::target::run;
use crate::{Availability, Error, Result, wait};

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

    /// How much processor time all its processes have used since it was started; none while it does not run.
    pub fn processor_time(&self) -> Duration {
        self.pid().map_or(Duration::ZERO, process::family_time)
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
        copy_beside(&self.data_folder())
    }

    /// Puts the copy into the place of its data. It does not run.
    pub fn put_data_back(&self) -> Result<()> {
        put_back(&self.data_folder())
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
        daemon::move_clock(self.daemon.folder(), ahead_s, self.address(), async || self.time_s().await).await
    }

    /// The time of its clock, in seconds since 1970.
    pub async fn time_s(&self) -> Result<i64> {
        K::time_s(&self.operator).await
    }
}

/// Copies the data beside their folder; an earlier copy is removed.
fn copy_beside(data: &Path) -> Result<()> {
    let copy = beside(data);
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(Error::io(copy.display()))?;
    }
    run(Command::new("cp").arg("--archive").arg(data).arg(copy))
}

/// Puts the copy into the place of the data. Their server does not run.
fn put_back(data: &Path) -> Result<()> {
    fs::remove_dir_all(data).map_err(Error::io(data.display()))?;
    run(Command::new("cp").arg("--archive").arg(beside(data)).arg(data))
}

fn beside(data: &Path) -> PathBuf {
    data.with_extension("copy")
}

/// How long one of many looks at who leads may take: a server that stands still or is starting accepts connections, and
/// one that works needs a moment of a busy processor.
pub(crate) const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Several real servers, numbered from 0; dropping it kills them all.
#[derive(Debug)]
pub struct Group<K: Kind> {
    pub(crate) servers: Vec<Server<K>>,
}

/// A kind of which several elect a leader.
pub trait Elects: Kind {
    /// Whether it takes itself for the leader, or follows one; `None` if it does not serve. One that was cut off from
    /// the others takes itself for the leader for a while.
    fn leads(operator: &Self::Operator) -> impl Future<Output = Option<bool>> + Send;
}

impl<K: Kind> Group<K> {
    /// Prepares one server on each of these grounds; what each is started with may hang on where all of them are.
    pub(crate) fn prepare(
        grounds: impl IntoIterator<Item = Ground>,
        setup: impl Fn(usize, &[Daemon]) -> K,
    ) -> Result<Self> {
        let daemons = grounds.into_iter().map(Daemon::new).collect::<Result<Vec<_>>>()?;
        let setups: Vec<_> = (0..daemons.len()).map(|index| setup(index, &daemons)).collect();
        let servers: Vec<_> =
            daemons.into_iter().zip(setups).map(|(daemon, setup)| Server::on(daemon, setup)).collect();
        servers.iter().try_for_each(|server| server.setup.fill(&server.daemon))?;
        Ok(Self { servers })
    }

    /// Starts those that do not run, and does not wait.
    pub(crate) fn start_all(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::start)
    }

    /// Starts those that do not run, and waits until all serve.
    pub(crate) async fn started(mut self) -> Result<Self> {
        self.start_all()?;
        self.serving().await?;
        Ok(self)
    }

    /// Waits until every server that runs serves.
    pub async fn serving(&mut self) -> Result<()> {
        for server in self.servers.iter_mut().filter(|server| server.pid().is_some()) {
            server.serving().await?;
        }
        Ok(())
    }

    /// The servers, by index.
    pub fn servers(&self) -> &[Server<K>] {
        &self.servers
    }

    /// One server, to kill or to pause.
    pub fn server_mut(&mut self, index: usize) -> &mut Server<K> {
        &mut self.servers[index]
    }

    /// Where clients connect, by index.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }
}

impl<K: Elects> Group<K> {
    /// The index of the leader, waiting for an election to end. Servers that do not answer are passed over.
    ///
    /// A server that was cut off believes for a while that it leads; see [`other_leader`](Self::other_leader).
    pub async fn leader(&self) -> Result<usize> {
        self.find("a leader", true, None, SERVING_WITHIN).await
    }

    /// The index of a leader other than `old`, waiting until one is elected.
    pub async fn other_leader(&self, old: usize, within: Duration) -> Result<usize> {
        self.find("another leader", true, Some(old), within).await
    }

    /// Waits until a look at a server that runs finds one that leads, or follows; answers its index.
    pub(crate) async fn find(&self, what: &str, leads: bool, but: Option<usize>, within: Duration) -> Result<usize> {
        wait::until(what, within, async || {
            for (index, server) in self.servers.iter().enumerate() {
                let looking = time::timeout(LOOK_WITHIN, K::leads(&server.operator));
                if Some(index) != but && server.pid().is_some() && looking.await == Ok(Some(leads)) {
                    return Some(index);
                }
            }
            None
        })
        .await
    }
}

pub(crate) fn in_network<'a>(network: &'a Network, ground: &'a Ground) -> impl Iterator<Item = Ground> + 'a {
    (0..network.len()).map(|index| Ground { namespace: Some(Namespace::of(network, index)), ..ground.clone() })
}
