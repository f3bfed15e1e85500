//! One task that keeps its place, and a client that comes behind it.

use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockkeeper::{Handoff, Mutex};
use tokio::sync::{mpsc, oneshot};

use super::super::bench::Bench;
use super::super::ours;
use super::ground::Ground;
use crate::Outcome;
use crate::load::{Calls, Stopwatch, one_thread, per_second};
use crate::report::Group;

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
