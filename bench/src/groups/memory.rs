//! The recipes alone: what a lock costs where its service costs nothing.

use std::hint::black_box;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockkeeper::clock::{BootInstant, RuntimeClock};
use lockkeeper::testing::{MemoryService, Records};
use lockkeeper::{Handoff, Keeper};
use tokio::time::timeout;

use super::ours::{self, Bench, CROWD};
use crate::load::Outcome;
use crate::load::{Effort, Stopwatch, one_thread, two_threads};
use crate::report::rows::NO_SERVER;
use crate::report::{Group, Plot};

/// Locks of one round and task.
const CALLS: u32 = 200_000;

/// How long a crowd contends in one round.
const CROWD_TIME: Duration = Duration::from_millis(500);

/// Sizes of crowds in the plot.
const SIZES: [usize; 5] = [1, 2, 8, 32, 128];

/// Waiters beside which one is cancelled, and how many are.
const WAITERS: usize = 10_000;
const CANCELLED: usize = 1_000;

/// Locks whose records are made in one round.
const RECORDED: u32 = 2_000_000;

/// How long a task loops while another client counts its grants.
const LOOP: Duration = Duration::from_millis(500);

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    for _ in 0..bench.effort.rounds() {
        bench.now("memory: one task");
        one_thread()?.block_on(alone(bench))?;
        let records = records(bench.effort);
        bench.shelf(Group::Memory, NO_SERVER).ours("records", records);
        bench.now("memory: cancellation");
        one_thread()?.block_on(cancel(bench))?;
        bench.now("memory: beside a task that loops");
        one_thread()?.block_on(beside_a_loop(bench))?;
        bench.now("memory: crowds");
        two_threads()?.block_on(crowds(bench))?;
    }
    Ok(())
}

async fn alone(bench: &mut Bench) -> Outcome<()> {
    let keeper = ours::observed("memory:")?;
    let calls = bench.effort.calls(CALLS);
    let mut mutexes = Vec::new();
    let policies = [("strict", Handoff::Strict), ("local", Handoff::local()), ("sticky", Handoff::sticky())];
    for (name, handoff) in policies {
        let mutex = keeper.mutex(name)?.handoff(handoff);
        // Opens the session.
        ours::lock_and_release(&mutex).await?;
        mutexes.push(mutex);
    }
    let rates = bench.turns.each(async |number| ours::rate(&mutexes[number], calls).await).await?;
    keeper.close().await?;
    let [strict, local, sticky] = rates;
    let mut shelf = bench.shelf(Group::Memory, NO_SERVER);
    shelf.ours("strict", strict);
    shelf.ours("sticky", sticky);
    shelf.beside("local-alone", 1.0 / local, 1.0 / strict);
    Ok(())
}

/// What the metrics of a lock and its release take while no recorder is installed.
fn records(effort: Effort) -> f64 {
    let records = Records::new(Arc::new(RuntimeClock::new()));
    let count = effort.calls(RECORDED);
    let watch = Stopwatch::start();
    for number in 0..count {
        let [asked, granted, released] = [0, 1, 2].map(|later| BootInstant::from_nanos(u64::from(number) + later));
        black_box(&records).make(black_box(asked), black_box(granted), black_box(released));
    }
    watch.elapsed().as_secs_f64() / f64::from(count)
}

async fn crowds(bench: &mut Bench) -> Outcome<()> {
    let keeper = Keeper::memory();
    for (name, handoff) in [("Strict", Handoff::Strict), ("Local", Handoff::local())] {
        for tasks in SIZES {
            let grants = ours::crowd(&keeper, "crowd", handoff, tasks, bench.effort.time(CROWD_TIME)).await?;
            let mut shelf = bench.shelf(Group::Memory, NO_SERVER);
            let x = u32::try_from(tasks).unwrap_or(u32::MAX);
            shelf.point(Plot::ThroughputMemory, name, x, grants.per_second());
            if tasks == CROWD && handoff == Handoff::local() {
                shelf.ours("crowd-local", grants.per_second());
                shelf.ours("fairness", grants.least_of_most());
            }
        }
    }
    Ok(keeper.close().await?)
}

/// Cancels waiters all over a long line within this process.
async fn cancel(bench: &mut Bench) -> Outcome<()> {
    let keeper = Keeper::memory();
    let mutex = keeper.mutex("cancelled")?.handoff(Handoff::local());
    let held = mutex.lock().await?;
    let mut waiters = Vec::with_capacity(WAITERS);
    for _ in 0..WAITERS {
        let mut waiter = Box::pin(mutex.clone().lock_owned());
        std::future::poll_fn(|context| {
            assert!(waiter.as_mut().poll(context).is_pending(), "the lock is held");
            Poll::Ready(())
        })
        .await;
        waiters.push(waiter);
        // As tasks of a program would join: not all in one turn of the runtime.
        tokio::task::yield_now().await;
    }
    // From places all over the line.
    let cancelled: Vec<_> = (0..CANCELLED).map(|index| waiters.swap_remove(index * 7_919 % waiters.len())).collect();
    let watch = Stopwatch::start();
    drop(cancelled);
    let each = watch.elapsed().as_secs_f64() / CANCELLED as f64;
    bench.shelf(Group::Memory, NO_SERVER).ours("cancel", each);
    drop(waiters);
    held.release().await?;
    Ok(keeper.close().await?)
}

/// A task takes a lock in a loop that never waits for anything else; another client of the same thread wants it too.
async fn beside_a_loop(bench: &mut Bench) -> Outcome<()> {
    let service = MemoryService::new(Arc::new(RuntimeClock::new()));
    let keepers = [service.keeper(), service.keeper()];
    let looping = keepers[0].mutex("loop")?.handoff(Handoff::local());
    let task = tokio::spawn(async move {
        while let Ok(guard) = looping.lock().await {
            drop(guard);
        }
    });
    let other = keepers[1].mutex("loop")?;
    let mut grants = 0_u32;
    let taking = async {
        while ours::lock_and_release(&other).await.is_ok() {
            grants += 1;
        }
    };
    // It ends before its time only where a lock fails, and then the row is missed.
    let _ = timeout(LOOP, taking).await;
    task.abort();
    bench.shelf(Group::Memory, NO_SERVER).ours("loop", f64::from(grants));
    Ok(())
}
