//! Followers beside 10,000 locks of which 100 change each second: how soon a change is told, and where a backend looks
//! again and again, which part of the time of one connection that takes.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard as StdMutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use lockkeeper::clock::{Clock as _, SystemClock};
use lockkeeper::follow::{FollowEvent, Scope};
use lockkeeper::{Keeper, MutexGuard};
use lockkeeper_faults::{etcd, mariadb, postgres, redis, zookeeper};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

use crate::groups::ours::{Bench, present};
use crate::groups::server::process::Server as Embedded;
use crate::load::Failed;
use crate::load::Outcome;
use crate::load::{Latency, Stopwatch, one_thread, two_threads};
use crate::report::Group;
use crate::report::rows::{APACHE, EMBEDDED, ETCD, MARIADB, NO_SERVER, POSTGRES, REDIS};

const LOCKS: u32 = 10_000;

/// How many on files: each holder has a pipe and its follower another one, and a process of 20,000 files has room for
/// them.
const LOCKS_OF_FILES: u32 = 5_000;

/// How long changes are made in one round.
const ROUND_TIME: Duration = Duration::from_secs(6);

/// How soon the last change of a round has to be told where changes are told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    for name in SERVERS {
        // Its processes are waited for on this runtime; what is measured has another one.
        let starting = two_threads()?;
        bench.now(&format!("following: {name}"));
        let served = starting.block_on(Served::start(name));
        let outcome = served.and_then(|served| one_thread()?.block_on(on(&served, bench)));
        if let Err(why) = outcome {
            bench.record.failed(Group::Following, Some(name), &why.to_string());
        }
    }
    Ok(())
}

async fn on(served: &Served, bench: &mut Bench) -> Outcome<()> {
    let effort = bench.effort;
    let count = if served.name == NO_SERVER { LOCKS_OF_FILES } else { LOCKS };
    let mut locks = Locks::hold(&served.url, effort.calls(count)).await?;
    let mut watcher = Watcher::start(served.url.clone(), locks.untold()).await?;
    for _ in 0..effort.rounds() {
        // Also in a quick run there are some changes.
        locks.change_for(effort.time(ROUND_TIME).max(Duration::from_millis(500))).await?;
        let shelf = &mut bench.shelf(Group::Following, served.name);
        if served.is_told() {
            locks.until_told(TOLD_WITHIN).await?;
            shelf.ours("told", watcher.take_delays().median());
        } else {
            shelf.ours("looks", watcher.next_look_share().await?);
        }
    }
    watcher.end().await?;
    locks.close().await
}

/// As their rows name them.
const SERVERS: [&str; 7] = [NO_SERVER, EMBEDDED, APACHE, ETCD, REDIS, POSTGRES, MARIADB];

/// A service that runs.
struct Served {
    name: &'static str,
    url: String,
    /// What must stay for the locks to be there.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Served {
    async fn start(name: &'static str) -> Outcome<Self> {
        let (url, kept): (String, Box<dyn Any + Send + Sync>) = match name {
            EMBEDDED => {
                let server = Embedded::embedded()?;
                (format!("zk://{}", server.address), Box::new(server))
            }
            APACHE => {
                present(zookeeper::availability())?;
                let server = zookeeper::Server::standalone_on_disk(zookeeper::Setup::new()).await?;
                (format!("zk://{}", server.address()), Box::new(server))
            }
            ETCD => {
                present(etcd::availability())?;
                let server = etcd::Server::standalone_on_disk().await?;
                (format!("etcd://{}", server.address()), Box::new(server))
            }
            REDIS => {
                present(redis::availability())?;
                let server = redis::Server::standalone().await?;
                (format!("redis://{}", server.address()), Box::new(server))
            }
            POSTGRES => {
                present(postgres::availability())?;
                let server = postgres::Setup::new().durable().on_disk().start().await?;
                (format!("postgres://postgres@{}/postgres", server.address()), Box::new(server))
            }
            MARIADB => {
                present(mariadb::availability())?;
                let server = mariadb::Setup::new().durable().on_disk().start().await?;
                (format!("mariadb://root@{}", server.address()), Box::new(server))
            }
            _ => {
                let directory = tempfile::tempdir()?;
                (format!("file:{}", directory.path().join("locks").display()), Box::new(directory))
            }
        };
        Ok(Self { name, url, _kept: kept })
    }

    /// Whether it tells of changes.
    fn is_told(&self) -> bool {
        ![POSTGRES, MARIADB].contains(&self.name)
    }
}

/// How many tasks take the locks at first.
const TAKERS: u32 = 64;

/// The time between two changes: 100 a second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);

/// How many locks are free at most; once so many are, one is taken and one given back in turns.
const FREE_MAX: usize = 50;

/// From one changed lock to the next one: all come by, far from each other.
const STEP: u32 = 7_919;

/// How soon to look again whether all changes were told.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// When each lock was last changed whose change was not told yet.
#[derive(Clone, Debug, Default)]
struct Untold(Arc<Mutex<BTreeMap<String, Stopwatch>>>);

impl Untold {
    fn locked(&self) -> StdMutexGuard<'_, BTreeMap<String, Stopwatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes how long ago a lock was changed that is told of now.
    fn take(&self, name: &str) -> Option<Duration> {
        self.locked().remove(name).map(|changed| changed.elapsed())
    }
}

/// The locks of a service, and who changes them.
pub(super) struct Locks {
    keeper: Keeper,
    held: BTreeMap<u32, MutexGuard>,
    free: VecDeque<u32>,
    count: u32,
    next: u32,
    untold: Untold,
}

pub(super) fn lock_name(number: u32) -> String {
    format!("job-{number}")
}

impl Locks {
    /// Takes so many locks.
    pub(super) async fn hold(url: &str, count: u32) -> Outcome<Self> {
        let keeper = lockkeeper::connect(url)?;
        let mut takers = JoinSet::new();
        for first in 0..TAKERS.min(count) {
            takers.spawn(take_each(keeper.clone(), first, count));
        }
        let mut held = BTreeMap::new();
        while let Some(taken) = takers.join_next().await {
            held.extend(taken??);
        }
        Ok(Self { keeper, held, free: VecDeque::new(), count, next: 0, untold: Untold::default() })
    }

    fn untold(&self) -> Untold {
        self.untold.clone()
    }

    /// Changes locks at an even pace for a while.
    async fn change_for(&mut self, time: Duration) -> Outcome<()> {
        let (mut pace, begun) = (interval(CHANGE_INTERVAL), Stopwatch::start());
        while begun.elapsed() < time {
            pace.tick().await;
            if self.free.len() < FREE_MAX {
                self.next = (self.next + STEP) % self.count;
                if let Some(guard) = self.held.remove(&self.next) {
                    self.note(self.next);
                    self.free.push_back(self.next);
                    guard.release().await?;
                }
            } else if let Some(number) = self.free.pop_front() {
                self.note(number);
                self.held.insert(number, self.keeper.mutex(&lock_name(number))?.lock().await?);
            }
        }
        Ok(())
    }

    fn note(&self, number: u32) {
        self.untold.locked().insert(lock_name(number), Stopwatch::start());
    }

    /// Waits until each change was told.
    async fn until_told(&self, within: Duration) -> Outcome<()> {
        let told = async {
            while !self.untold.locked().is_empty() {
                sleep(LOOK_AGAIN_AFTER).await;
            }
        };
        let late = |_| format!("{} changes were not told within {within:?}", self.untold.locked().len());
        Ok(timeout(within, told).await.map_err(late)?)
    }

    /// Gives all back.
    pub(super) async fn close(self) -> Outcome<()> {
        drop(self.held);
        Ok(self.keeper.close().await?)
    }
}

/// Takes every so manieth lock.
async fn take_each(keeper: Keeper, first: u32, count: u32) -> Outcome<Vec<(u32, MutexGuard)>> {
    let mut taken = Vec::new();
    for number in (first..count).step_by(TAKERS as usize) {
        taken.push((number, keeper.mutex(&lock_name(number))?.lock().await?));
    }
    Ok(taken)
}

/// How long the first look at all locks may take, and the time from one look to the next.
const LOOK_WITHIN: Duration = Duration::from_secs(120);

/// How many looks are noted that were not asked for yet.
const LOOKS_MAX: usize = 1_000;

/// A follower that runs.
struct Watcher {
    thread: JoinHandle<Outcome<()>>,
    end: oneshot::Sender<()>,
    delays: Arc<Mutex<Latency>>,
    /// Which part of the time looks took, one after the other.
    looks: mpsc::Receiver<f64>,
}

/// What the thread has of it.
struct Watching {
    untold: Untold,
    delays: Arc<Mutex<Latency>>,
    looks: mpsc::Sender<f64>,
    whole: Option<oneshot::Sender<()>>,
}

impl Watcher {
    /// Starts it, and waits until it was told of all locks.
    async fn start(url: String, untold: Untold) -> Outcome<Self> {
        let (end, ended) = oneshot::channel();
        let (whole, is_whole) = oneshot::channel();
        let (noted, looks) = mpsc::channel(LOOKS_MAX);
        let delays = Arc::new(Mutex::new(Latency::new()));
        let watching = Watching { untold, delays: delays.clone(), looks: noted, whole: Some(whole) };
        let thread = spawn(move || one_thread()?.block_on(watching.watch(&url, ended)));
        let watcher = Self { thread, end, delays, looks };
        match timeout(LOOK_WITHIN, is_whole).await? {
            Ok(()) => Ok(watcher),
            // It says why it has ended.
            Err(_) => Err(watcher.end().await.err().unwrap_or_else(|| "the follower has ended".into())),
        }
    }

    /// Takes how late changes were told since this was asked last.
    fn take_delays(&self) -> Latency {
        std::mem::replace(&mut *self.delays.lock().unwrap_or_else(PoisonError::into_inner), Latency::new())
    }

    /// Waits for a look; returns which part of the time it took, its pause included.
    async fn next_look_share(&mut self) -> Outcome<f64> {
        let share = timeout(LOOK_WITHIN, self.looks.recv()).await?;
        share.ok_or_else(|| "the follower has ended".into())
    }

    async fn end(self) -> Outcome<()> {
        drop(self.end);
        let thread = self.thread;
        spawn_blocking(move || thread.join()).await?.map_err(|_| Failed::from("the follower panicked"))?
    }
}

impl Watching {
    async fn watch(mut self, url: &str, mut ended: oneshot::Receiver<()>) -> Outcome<()> {
        let keeper = lockkeeper::connect(url)?;
        let mut follower = keeper.admin().follow(&Scope::default()).ok_or("it cannot be followed")?;
        loop {
            let told = tokio::select! {
                told = follower.next() => told.ok_or("nothing is told any more")?,
                _ = &mut ended => break,
            };
            self.take(told)?;
        }
        drop(follower);
        Ok(keeper.close().await?)
    }

    fn take(&mut self, event: FollowEvent) -> Outcome<()> {
        match event {
            FollowEvent::All(_) => {
                let _ = self.whole.take().map(|whole| whole.send(()));
            }
            FollowEvent::Changed(locks) => {
                let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = locks.iter().filter_map(|now| self.untold.take(now.lock.as_str()));
                changed.for_each(|delay| delays.note(delay));
            }
            FollowEvent::Looked { began, pause, .. } => {
                let look = SystemClock.now().saturating_duration_since(began);
                // Those of whom nothing is asked are not noted.
                let _ = self.looks.try_send(look.div_duration_f64(look + pause));
            }
            FollowEvent::Lost(error) => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }
}
