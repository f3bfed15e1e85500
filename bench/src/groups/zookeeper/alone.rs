//! One task, one thread: what one caller pays for a free lock, or one that another client holds.

use std::time::Duration;

use lockkeeper::{Handoff, Keeper, Mutex};
use tokio::time::sleep;

use super::ground::Ground;
use crate::groups::ours;
use crate::groups::ours::Bench;
use crate::load::Outcome;
use crate::load::{Calls, Effort, Stopwatch, timed};
use crate::peers::zookeeper::{BareLock, ClientLock};
use crate::report::rows::APACHE;
use crate::report::{Group, Plot};

/// Locks of one turn; turns that warm up, and those that are counted. Short turns, so that a disk whose speed drifts
/// favours none of those that are compared.
const CALLS: u32 = 40;
const TURNS: [usize; 2] = [2, 25];

/// Locks of one turn that are followed by other work, …
const DROPPED_CALLS: u32 = 20;
const DROPPED_TURNS: usize = 5;

/// … and how long that takes: the deletion of the node is done by then, on a slow disk too.
const WORK: Duration = Duration::from_millis(5);

/// Locks whose requests are counted.
const COUNTED_CALLS: u32 = 200;

pub(super) async fn measure(ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    let strict = keeper.mutex("alone")?;
    let local = keeper.mutex("alone local")?.handoff(Handoff::local());
    for mutex in [&strict, &local] {
        ours::lock_and_release(mutex).await?;
    }
    beside_others(&strict, ground, bench).await?;
    let (both, calls) = ([&local, &strict], bench.effort.calls(CALLS));
    let alone = async |number: usize| ours::alone(both[number], calls).await;
    let compared = bench.turns.compare::<2>(turns(bench.effort), alone).await?;
    bench.shelf(Group::ZooKeeper, ground.name).compared(&["local-alone"], &compared);
    count_requests(&strict, &local, ground, bench).await?;
    released_by_drop(&strict, ground, bench).await?;
    refused(&keeper, ground, bench).await?;
    Ok(keeper.close().await?)
}

fn turns(effort: Effort) -> [usize; 2] {
    TURNS.map(|turns| effort.turns(turns))
}

async fn beside_others(ours: &Mutex, ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let mut bare = BareLock::open(ground.address(), "/bench-bare").await?;
    let calls = bench.effort.calls(CALLS);
    let compared = bench
        .turns
        .compare::<3>(turns(bench.effort), async |number| match number {
            0 => ours::alone(ours, calls).await,
            1 => timed(calls, async || Ok(bare.lock_and_release().await?)).await,
            _ => match &mut ground.curator {
                Some(peer) => Ok(Calls::of(peer.time_alone("/bench/curator", calls, Duration::ZERO).await?)),
                None => Ok(Calls::of([])),
            },
        })
        .await?;
    let mut shelf = bench.shelf(Group::ZooKeeper, ground.name);
    shelf.compared(&["bare", "curator"], &compared);
    if ground.name == APACHE {
        let names = ["lockkeeper", "bare socket", "Curator"];
        shelf.latencies(Plot::LatencyZooKeeper, names, &compared);
    }
    Ok(())
}

/// By the server's own counter. Requests of a pair are given to a tenth: the session's own pings are among them.
async fn count_requests(strict: &Mutex, local: &Mutex, ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    let calls = bench.effort.calls(COUNTED_CALLS);
    for _ in 0..bench.effort.rounds() {
        let mut requests = [0.0; 2];
        for (mutex, counted) in [local, strict].into_iter().zip(&mut requests) {
            let before = ground.received().await?;
            ours::alone(mutex, calls).await?;
            // The question is a packet too.
            let received = ground.received().await?.saturating_sub(before + 1);
            *counted = (received as f64 / f64::from(calls) * 10.0).round() / 10.0;
        }
        bench.shelf(Group::ZooKeeper, ground.name).beside("requests", requests[0], requests[1]);
    }
    Ok(())
}

/// What the caller waits for, which is the lock and the drop, once with other work behind each and once in a tight
/// loop. The crate `zookeeper-client` has no other release. The same pause follows each pair of Curator's; it is in no
/// figure.
async fn released_by_drop(ours: &Mutex, ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let (name, effort) = (ground.name, bench.effort);
    let client = ClientLock::open(&ground.connect(), "/bench/zookeeper-client").await?;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let tight = (effort.calls(CALLS), effort.turns(TURNS[1]), Duration::ZERO);
    let working = (effort.calls(DROPPED_CALLS), effort.turns(DROPPED_TURNS), WORK);
    for (ids, (calls, counted, work)) in [(["drop", "drop-client"], working), (["drop-tight", "client"], tight)] {
        let compared = bench.turns.compare::<3>([1, counted], async |number| match number {
            0 => dropped(calls, work, async || lock_and_drop(ours).await).await,
            1 => Ok(Calls::of(curator.time_alone("/bench/curator", calls, work).await?)),
            _ => dropped(calls, work, async || client.lock_and_drop().await).await,
        });
        let compared = compared.await?;
        bench.shelf(Group::ZooKeeper, name).compared(&ids, &compared);
    }
    Ok(())
}

async fn lock_and_drop(mutex: &Mutex) -> Outcome<()> {
    drop(mutex.lock().await?);
    Ok(())
}

async fn dropped(count: u32, work: Duration, lock_and_drop: impl AsyncFn() -> Outcome<()>) -> Outcome<Calls> {
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let watch = Stopwatch::start();
        lock_and_drop().await?;
        times.push(watch.elapsed());
        if !work.is_zero() {
            sleep(work).await;
        }
    }
    Ok(Calls::of(times))
}

/// A client of ours holds a lock that both try to take.
async fn refused(keeper: &Keeper, ground: &mut Ground, bench: &mut Bench) -> Outcome<()> {
    let (path, name) = ("/bench/held", ground.name);
    let holder = lockkeeper::connect(&*ground.url())?;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let held = holder.mutex(path)?.lock().await?;
    let mutex = keeper.mutex(path)?;
    let calls = bench.effort.calls(CALLS);
    let compared = bench.turns.compare::<2>(turns(bench.effort), async |number| match number {
        0 => timed(calls, async || try_in_vain(&mutex).await).await,
        _ => Ok(Calls::of(curator.time_refused(path, calls).await?)),
    });
    let compared = compared.await?;
    held.release().await?;
    holder.close().await?;
    bench.shelf(Group::ZooKeeper, name).compared(&["refused"], &compared);
    Ok(())
}

async fn try_in_vain(mutex: &Mutex) -> Outcome<()> {
    match mutex.try_lock().await? {
        Some(_) => Err("the lock is free".into()),
        None => Ok(()),
    }
}
