//! Redis: ours beside `SET NX PX` and the crate `rslock`, alone and in a crowd.
//!
//! All run on one thread, so that calls are compared, and not how soon a busy machine wakes the threads of one program.

use std::time::Duration;

use lockkeeper::Mutex;
use lockkeeper_faults::redis::{self, Flush, Server, Setup};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::groups::ours::{self, Bench, present};
use crate::load::Outcome;
use crate::load::{Stopwatch, one_thread, timed};
use crate::peers::redis::{Rslock, SetNx};
use crate::report::Group;
use crate::report::rows::{REDIS, REDIS_AOF};

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    present(redis::availability())?;
    one_thread()?.block_on(on_both(bench))
}

async fn on_both(bench: &mut Bench) -> Outcome<()> {
    bench.now("redis: one task");
    let server = Server::standalone().await?;
    alone(&server, REDIS, bench).await?;
    for hold in &HOLDS {
        bench.now("redis: a crowd of clients");
        crowd(&server, hold, bench).await?;
    }
    drop(server);
    bench.now("redis: one task, with its log on the disk");
    let server = Setup::new().append_only(Flush::EverySecond).on_disk().start().await?;
    alone(&server, REDIS_AOF, bench).await
}

/// How many locks each takes in one turn.
const CALLS: u32 = 200;

/// How many turns warm up, and how many are counted.
const TURNS: [usize; 2] = [4, 41];

async fn alone(server: &Server, name: &'static str, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*format!("redis://{}", server.address()))?;
    let ours = keeper.mutex("ours")?;
    let mut plain = SetNx::open(server.address(), "plain", 0).await?;
    let rslock = Rslock::new(server.address());
    let calls = bench.effort.calls(CALLS);
    let turns = TURNS.map(|turns| bench.effort.turns(turns));
    let compared = bench
        .turns
        .compare::<3>(turns, async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || plain.lock_and_release().await).await,
            _ => timed(calls, async || rslock.lock_and_release("rslock").await).await,
        })
        .await?;
    keeper.close().await?;
    bench.shelf(Group::Redis, name).compared(&["plain", "rslock"], &compared);
    Ok(())
}

/// How many clients want the lock.
const CLIENTS: u32 = 32;

/// How long each holds the lock, with the rows that this fills.
struct Holding {
    time: Duration,
    grants: &'static str,
    commands: &'static str,
}

/// The shortest possible time, and the time of a small piece of work.
const HOLDS: [Holding; 2] = [
    Holding { time: Duration::ZERO, grants: "crowd-grants", commands: "crowd-commands" },
    Holding { time: Duration::from_millis(10), grants: "crowd-grants-10ms", commands: "crowd-commands-10ms" },
];

/// How long each waits after its release.
const REST: Duration = Duration::from_millis(10);

/// How long the others wait before they try again.
const RETRY: Duration = Duration::from_millis(10);

/// How long each of both is measured in one turn.
const TURN_TIME: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Default)]
struct TurnFigures {
    grants: f64,
    /// How many each grant took, with those that waiters sent meanwhile.
    commands: f64,
}

async fn crowd(server: &Server, hold: &Holding, bench: &mut Bench) -> Outcome<()> {
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
    let time = bench.effort.time(TURN_TIME);
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
async fn turn<C>(server: &Server, clients: C) -> Outcome<TurnFigures>
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
    Ok(TurnFigures { grants, commands: sent(&server.ask::<String>(&["INFO", "commandstats"]).await?, grants) / grants })
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
