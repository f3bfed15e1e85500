//! Many clients that want one lock, each with a separate connection, as on so many machines: ours, and `SET NX PX`
//! with retry.

use std::time::Duration;

use lockkeeper::Mutex;
use lockkeeper_faults::redis::Server;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::bench::Bench;
use super::super::ours;
use crate::Outcome;
use crate::load::Stopwatch;
use crate::peers::set_nx::SetNx;
use crate::report::Group;
use crate::report::rows::REDIS;

/// How many clients want the lock.
const CLIENTS: u32 = 32;

/// How long each holds the lock, with the rows that this fills.
pub(super) struct Holding {
    time: Duration,
    grants: &'static str,
    commands: &'static str,
}

/// The shortest possible time, and the time of a small piece of work.
pub(super) const HOLDS: [Holding; 2] = [
    Holding { time: Duration::ZERO, grants: "crowd-grants", commands: "crowd-commands" },
    Holding { time: Duration::from_millis(10), grants: "crowd-grants-10ms", commands: "crowd-commands-10ms" },
];

/// How long each waits after its release.
const REST: Duration = Duration::from_millis(10);

/// How long the others wait before they try again.
const RETRY: Duration = Duration::from_millis(10);

/// How long each of both is measured in one turn.
const TURN: Duration = Duration::from_secs(2);

/// What one turn brought.
#[derive(Clone, Copy, Default)]
struct Turn {
    grants: f64,
    /// How many each grant took, with those that waiters sent meanwhile.
    commands: f64,
}

pub(super) async fn measure(server: &Server, hold: &Holding, bench: &mut Bench) -> Outcome<()> {
    let (mut mutexes, mut plain_locks) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let keeper = lockkeeper::connect(&*format!("redis://{}", server.address()))?;
        mutexes.push((keeper.mutex("crowd")?, keeper));
        plain_locks.push(SetNx::open(server.address(), "plain crowd", number).await?);
    }
    // Opens the sessions.
    for (mutex, _) in &mutexes {
        ours::lock_and_release(mutex).await?;
    }
    let time = bench.effort.time(TURN);
    for _ in 0..bench.effort.rounds() {
        let shown = bench.turns.each(async |number| match number {
            0 => turn(server, mutexes.iter().map(|(mutex, _)| contend(mutex.clone(), hold.time, time))).await,
            _ => turn(server, plain_locks.iter().map(|lock| retry(lock.clone(), hold.time, time))).await,
        });
        let [ours, plain] = shown.await?;
        let mut shelf = bench.shelf(Group::Redis, REDIS);
        shelf.beside(hold.grants, ours.grants, plain.grants);
        shelf.beside(hold.commands, ours.commands, plain.commands);
    }
    for (_, keeper) in &mutexes {
        keeper.close().await?;
    }
    Ok(())
}

/// Lets clients contend for one turn, and counts. Each tells how often it was granted the lock.
async fn turn<C>(server: &Server, clients: C) -> Outcome<Turn>
where
    C: Iterator<Item: Future<Output = Outcome<u32>> + Send + 'static>,
{
    server.ask::<()>(&["CONFIG", "RESETSTAT"]).await?;
    let mut contending: JoinSet<_> = clients.collect();
    let mut grants = 0;
    while let Some(ended) = contending.join_next().await {
        grants += ended??;
    }
    let grants = f64::from(grants);
    Ok(Turn { grants, commands: sent(&server.ask::<String>(&["INFO", "commandstats"]).await?, grants) / grants })
}

/// How many commands the clients have sent. The server counts what scripts call as well: of what clients of these locks
/// send too, that is one GET for each release.
fn sent(stats: &str, releases: f64) -> f64 {
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    let is_ours = calls("client|caching") > 0.0;
    // A script of ours calls SET as well, and no client of ours sends it.
    let others = if is_ours { calls("client|caching") } else { calls("set") };
    calls("eval") + calls("evalsha") + calls("get") - releases + others
}

async fn contend(mutex: Mutex, hold: Duration, time: Duration) -> Outcome<u32> {
    let watch = Stopwatch::start();
    let mut grants = 0;
    while watch.elapsed() < time {
        let guard = mutex.lock().await?;
        pause(hold).await;
        guard.release().await?;
        grants += 1;
        sleep(REST).await;
    }
    Ok(grants)
}

async fn retry(mut lock: SetNx, hold: Duration, time: Duration) -> Outcome<u32> {
    let watch = Stopwatch::start();
    let mut grants = 0;
    while watch.elapsed() < time {
        if !lock.try_lock().await? {
            sleep(RETRY).await;
            continue;
        }
        pause(hold).await;
        lock.release().await?;
        grants += 1;
        sleep(REST).await;
    }
    Ok(grants)
}

/// A timer waits for at least a millisecond.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}
