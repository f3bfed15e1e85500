//! Waiters of one task each: hand-offs in short and in long queues, from one grant to the next; a read/write lock that
//! is seldom written; a task that keeps its place, and a client that comes behind it.
//!
//! For a hand-off a holder lets so many waiters join, and gives the lock to the first; each gives it on at once. Of a
//! long queue only the first part is counted, while it is still long.

use std::sync::{Arc, Mutex as StdMutex, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockkeeper::{Handoff, Keeper, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::groups::ours::Bench;
use crate::groups::ours::{self, CROWD};
use crate::groups::zookeeper::ground::Ground;
use crate::load::Outcome;
use crate::load::{Calls, Crowd, CrowdGrants, Latency, Stopwatch, one_thread, per_second};
use crate::report::{Group, Plot};

/// How many wait, and how often they do so in one round: about as many hand-offs are counted of each.
const QUEUES: [(u32, u32); 3] = [(10, 20), (100, 2), (1_000, 1)];

/// How many hand-offs of one queue are counted.
const COUNTED: usize = 200;

/// How long they may take to join, and how soon to look again.
const JOINED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

pub(super) async fn measure(ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    for _ in 0..bench.effort.rounds() {
        let mut medians = [0.0; QUEUES.len()];
        for number in bench.turns.order::<{ QUEUES.len() }>() {
            let (waiters, times) = QUEUES[number];
            let mut latency = Latency::new();
            for _ in 0..bench.effort.calls(times).min(times) {
                hand_offs(&keeper, waiters, &mut latency).await?;
            }
            medians[number] = latency.median();
            let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
            shelf.point(Plot::HandoffZooKeeper, "Strict", waiters, medians[number] * 1e3);
        }
        bench.shelf(Group::ZooKeeper, ground.name).beside("waiters", medians[QUEUES.len() - 1], medians[0]);
    }
    Ok(keeper.close().await?)
}

async fn hand_offs(keeper: &Keeper, waiters: u32, latency: &mut Latency) -> Outcome<()> {
    let mutex = keeper.mutex("waiters")?;
    let held = mutex.lock().await?;
    let granted = Arc::new(StdMutex::new(Vec::new()));
    let begun = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        tasks.spawn(wait(mutex.clone(), begun, granted.clone()));
    }
    timeout(JOINED_WITHIN, joined(keeper, waiters as usize + 1)).await??;
    held.release().await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let granted = granted.lock().expect("no task has panicked");
    for pair in granted.windows(2).take(COUNTED) {
        latency.note(pair[1].saturating_sub(pair[0]));
    }
    Ok(())
}

async fn wait(mutex: Mutex, begun: Stopwatch, granted: Arc<StdMutex<Vec<Duration>>>) -> Outcome<()> {
    let guard = mutex.lock().await?;
    granted.lock().expect("no task has panicked").push(begun.elapsed());
    Ok(guard.release().await?)
}

async fn joined(keeper: &Keeper, contenders: usize) -> Outcome<()> {
    while keeper.contenders("waiters").await?.len() < contenders {
        sleep(LOOK_AGAIN_AFTER).await;
    }
    Ok(())
}

/// Of so many grants of a task, one is to write: 5 %.
const ONE_WRITES_IN: u32 = 20;

/// How long each contends in one round.
const TIME: Duration = Duration::from_millis(700);

pub(super) async fn readers(ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let url = ground.url();
    let name = ground.name;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let time = bench.effort.time(TIME);
    for _ in 0..bench.effort.rounds() {
        let rates = bench.turns.each::<_, 2>(async |number| match number {
            0 => Ok(ours(&url, time).await?.per_second()),
            _ => {
                let crowd = curator.time_mixed("/bench/curator-readers", ONE_WRITES_IN, CROWD, time).await?;
                Ok(CrowdGrants::new(crowd.grants, crowd.took).per_second())
            }
        });
        let rates = rates.await?;
        bench.shelf(Group::ZooKeeper, name).beside("readers", rates[0], rates[1]);
    }
    Ok(())
}

async fn ours(url: &str, time: Duration) -> Outcome<CrowdGrants> {
    let keeper = lockkeeper::connect(url)?;
    let lock = keeper.rw_lock("readers")?;
    // Opens the session.
    lock.read().await?.release().await?;
    let mut crowd = Crowd::new();
    for number in (0..ONE_WRITES_IN).cycle().take(CROWD) {
        let lock = lock.clone();
        let mut turn = number;
        crowd.add(move || {
            let lock = lock.clone();
            let writes = turn % ONE_WRITES_IN == 0;
            turn += 1;
            async move {
                match writes {
                    true => Ok(lock.write().await?.release().await?),
                    false => Ok(lock.read().await?.release().await?),
                }
            }
        });
    }
    let grants = crowd.end_after(time).await?;
    keeper.close().await?;
    Ok(grants)
}

/// Locks of one round that need no request.
const CALLS: u32 = 500_000;

/// Locks of one turn that others take behind an idle place, and turns.
const BEHIND_CALLS: u32 = 40;
const TURNS: usize = 9;

/// How long a place stays idle at most: longer than it takes another client to come.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) async fn rates(ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = ours::observed(&ground.url())?;
    let mutex = keeper.mutex("sticky")?.handoff(Handoff::sticky());
    // Opens the session.
    ours::lock_and_release(&mutex).await?;
    let calls = bench.effort.calls(CALLS);
    for _ in 0..bench.effort.rounds() {
        let same = ours::rate(&mutex, calls).await?;
        let named = per_second(calls, async || {
            ours::lock_and_release(&keeper.mutex("sticky")?.handoff(Handoff::sticky())).await
        })
        .await?;
        let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
        shelf.ours("sticky", same);
        shelf.ours("sticky-named", named);
    }
    Ok(keeper.close().await?)
}

/// The time until a client has the lock: a free one, one whose place another process keeps idle, and one whose holder's
/// runtime does nothing meanwhile.
pub(super) async fn behind_an_idle_place(ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    let [free, idle] = [keeper.mutex("free")?, keeper.mutex("idle")?];
    let idler = Idler::start(ground.url());
    for mutex in [&free, &idle] {
        ours::lock_and_release(mutex).await?;
    }
    let calls = bench.effort.calls(BEHIND_CALLS);
    for _ in 0..bench.effort.turns(TURNS) {
        let medians = bench.turns.each::<_, 3>(async |number| {
            let mut times = Vec::new();
            for _ in 0..calls {
                let (mutex, unblock) = match number {
                    0 => (&free, None),
                    1 => (&idle, idler.keep(false).await?),
                    _ => (&idle, idler.keep(true).await?),
                };
                times.push(lock_time(mutex).await?);
                drop(unblock);
            }
            Ok(Calls::of(times).latency.median())
        });
        let medians = medians.await?;
        let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
        shelf.beside("idle", medians[1], medians[0]);
        shelf.beside("idle-blocked", medians[2], medians[0]);
    }
    idler.end().await?;
    Ok(keeper.close().await?)
}

async fn lock_time(mutex: &Mutex) -> Outcome<Duration> {
    let watch = Stopwatch::start();
    let guard = mutex.lock().await?;
    let took = watch.elapsed();
    guard.release().await?;
    Ok(took)
}

/// Has its runtime blocked until it is dropped.
type Blocking = std_mpsc::Sender<()>;

/// What an [`Idler`] is asked for.
struct Keep {
    blocking: Option<std_mpsc::Receiver<()>>,
    kept: oneshot::Sender<Outcome<()>>,
}

/// A program with a separate runtime that takes a lock and keeps the place.
struct Idler {
    asked: mpsc::Sender<Keep>,
    thread: JoinHandle<Outcome<()>>,
}

impl Idler {
    fn start(url: String) -> Self {
        let (asked, asking) = mpsc::channel(1);
        Self { asked, thread: thread::spawn(move || one_thread()?.block_on(idle(url, asking))) }
    }

    /// Has it keep the place, and block its runtime from then on if that is asked for.
    async fn keep(&self, blocks: bool) -> Outcome<Option<Blocking>> {
        let (unblock, blocking) = std_mpsc::channel();
        let (kept, keeping) = oneshot::channel();
        self.asked.send(Keep { blocking: blocks.then_some(blocking), kept }).await.map_err(|_| "it has ended")?;
        keeping.await??;
        Ok(blocks.then_some(unblock))
    }

    async fn end(self) -> Outcome<()> {
        drop(self.asked);
        tokio::task::spawn_blocking(|| self.thread.join()).await?.map_err(|_| "it has panicked")?
    }
}

async fn idle(url: String, mut asking: mpsc::Receiver<Keep>) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*url)?;
    let mutex = keeper.mutex("idle")?.handoff(Handoff::Sticky { idle_max: IDLE_MAX });
    while let Some(Keep { blocking, kept }) = asking.recv().await {
        let outcome = ours::lock_and_release(&mutex).await;
        // The one that asks waits for it.
        let _ = kept.send(outcome);
        if let Some(blocking) = blocking {
            // Ends when its sender is dropped.
            let _ = blocking.recv();
        }
    }
    Ok(keeper.close().await?)
}
