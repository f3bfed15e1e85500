//! One task, one thread: what one caller pays for a free lock, or one that another client holds.

use std::time::Duration;

use lockkeeper::{Handoff, Keeper, Mutex};
use tokio::time::sleep;

use super::super::ours;
use super::ground::Ground;
use crate::Outcome;
use crate::load::{Calls, Effort, Stopwatch, Turns, timed};
use crate::peers::bare_socket::BareLock;
use crate::peers::zookeeper_client::ClientLock;
use crate::report::rows::APACHE;
use crate::report::{Group, Plot, Record};

/// Locks of one turn; turns that are counted, and those that warm up. Short turns, so that a disk whose speed drifts
/// favours none of those that are compared.
const CALLS: u32 = 40;
const TURNS: usize = 25;
const WARM_UP_TURNS: usize = 2;

/// Locks of one turn that are followed by other work, …
const DROPPED_CALLS: u32 = 20;
const DROPPED_TURNS: usize = 5;

/// … and how long that takes: the deletion of the node is done by then, on a slow disk too.
const WORK: Duration = Duration::from_millis(5);

/// Locks whose requests are counted.
const COUNTED_CALLS: u32 = 200;

pub(super) async fn measure(
    ground: &mut Ground,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*ground.url())?;
    let strict = keeper.mutex("alone")?;
    let local = keeper.mutex("alone local")?.handoff(Handoff::local());
    for mutex in [&strict, &local] {
        ours::lock_and_release(mutex).await?;
    }
    beside_others(&strict, ground, effort, turns, record).await?;
    beside_local(&strict, &local, ground, effort, turns, record).await?;
    count_requests(&strict, &local, ground, effort, record).await?;
    released_by_drop(&strict, ground, effort, turns, record).await?;
    refused(&keeper, ground, effort, turns, record).await?;
    Ok(keeper.close().await?)
}

async fn beside_others(
    ours: &Mutex,
    ground: &mut Ground,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let mut bare = BareLock::open(ground.address(), "/bench-bare").await?;
    let client = ClientLock::open(&ground.connect(), "/bench/zookeeper-client").await?;
    let calls = effort.calls(CALLS);
    let none = Duration::ZERO;
    let compared = turns
        .compare::<5>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| match number {
            0 => ours::alone(ours, calls).await,
            1 => timed(calls, async || Ok(bare.lock_and_release().await?)).await,
            2 => timed(calls, async || client.lock_and_release().await).await,
            3 => match &mut ground.curator {
                Some(peer) => Ok(Calls::of(peer.time_alone("/bench/curator", calls, none).await?)),
                None => Ok(Calls::of([])),
            },
            _ => match &mut ground.kazoo {
                Some(peer) => Ok(Calls::of(peer.time_alone("/bench/kazoo", calls, none).await?)),
                None => Ok(Calls::of([])),
            },
        })
        .await?;
    let mut shelf = record.shelf(Group::ZooKeeper, ground.name);
    for [ours, bare, client, curator, kazoo] in compared.means_s {
        for (id, peer) in [("bare", bare), ("client", client), ("curator", curator), ("kazoo", kazoo)] {
            // Nothing of a peer that is not there.
            if peer > 0.0 {
                shelf.beside(id, ours, peer);
            }
        }
    }
    if ground.name == APACHE {
        let names = ["lockkeeper", "bare socket", "zookeeper-client", "Curator", "kazoo"];
        for (name, latency) in names.into_iter().zip(&compared.latencies).filter(|(_, latency)| !latency.is_empty()) {
            shelf.latency(Plot::LatencyZooKeeper, name, latency);
        }
    }
    Ok(())
}

async fn beside_local(
    strict: &Mutex,
    local: &Mutex,
    ground: &Ground,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let calls = effort.calls(CALLS);
    let both = [local, strict];
    let compared = turns
        .compare::<2>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| {
            ours::alone(both[number], calls).await
        })
        .await?;
    let mut shelf = record.shelf(Group::ZooKeeper, ground.name);
    for [local, strict] in compared.means_s {
        shelf.beside("local-alone", local, strict);
    }
    Ok(())
}

/// By the server's own counter. Requests of a pair are given to a tenth: the session's own pings are among them.
async fn count_requests(
    strict: &Mutex,
    local: &Mutex,
    ground: &Ground,
    effort: Effort,
    record: &mut Record,
) -> Outcome<()> {
    let calls = effort.calls(COUNTED_CALLS);
    for _ in 0..effort.rounds() {
        let mut requests = [0.0; 2];
        for (mutex, counted) in [local, strict].into_iter().zip(&mut requests) {
            let before = ground.received().await?;
            ours::alone(mutex, calls).await?;
            // The question is a packet too.
            let received = ground.received().await?.saturating_sub(before + 1);
            *counted = (received as f64 / f64::from(calls) * 10.0).round() / 10.0;
        }
        record.shelf(Group::ZooKeeper, ground.name).beside("requests", requests[0], requests[1]);
    }
    Ok(())
}

/// What the caller waits for, which is the lock and the drop, once with other work behind each and once in a tight
/// loop. The same pause follows each pair of Curator's; it is in no figure.
async fn released_by_drop(
    ours: &Mutex,
    ground: &mut Ground,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let name = ground.name;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let tight = (effort.calls(CALLS), effort.turns(TURNS), Duration::ZERO);
    let working = (effort.calls(DROPPED_CALLS), effort.turns(DROPPED_TURNS), WORK);
    for (id, (calls, counted, work)) in [("drop", working), ("drop-tight", tight)] {
        let compared = turns
            .compare::<2>(1, counted, async |number| match number {
                0 => dropped(ours, calls, work).await,
                _ => Ok(Calls::of(curator.time_alone("/bench/curator", calls, work).await?)),
            })
            .await?;
        let mut shelf = record.shelf(Group::ZooKeeper, name);
        for [ours, curator] in compared.means_s {
            shelf.beside(id, ours, curator);
        }
    }
    Ok(())
}

async fn dropped(mutex: &Mutex, count: u32, work: Duration) -> Outcome<Calls> {
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let watch = Stopwatch::start();
        drop(mutex.lock().await?);
        times.push(watch.elapsed());
        if !work.is_zero() {
            sleep(work).await;
        }
    }
    Ok(Calls::of(times))
}

/// A client of ours holds a lock that both try to take.
async fn refused(
    keeper: &Keeper,
    ground: &mut Ground,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let (path, name) = ("/bench/held", ground.name);
    let holder = lockkeeper::connect(&*ground.url())?;
    let Some(curator) = &mut ground.curator else { return Ok(()) };
    let held = holder.mutex(path)?.lock().await?;
    let mutex = keeper.mutex(path)?;
    let calls = effort.calls(CALLS);
    let compared = turns
        .compare::<2>(effort.turns(WARM_UP_TURNS), effort.turns(TURNS), async |number| match number {
            0 => timed(calls, async || try_in_vain(&mutex).await).await,
            _ => Ok(Calls::of(curator.time_refused(path, calls).await?)),
        })
        .await?;
    held.release().await?;
    holder.close().await?;
    let mut shelf = record.shelf(Group::ZooKeeper, name);
    for [ours, curator] in compared.means_s {
        shelf.beside("refused", ours, curator);
    }
    Ok(())
}

async fn try_in_vain(mutex: &Mutex) -> Outcome<()> {
    match mutex.try_lock().await? {
        Some(_) => Err("the lock is free".into()),
        None => Ok(()),
    }
}
