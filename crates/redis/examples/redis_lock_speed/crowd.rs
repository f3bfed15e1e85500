//! Many clients that want one lock, each with a connection of its own, as on so many machines: ours, and `SET NX PX`
//! with retry.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::redis::Server;
use lockkeeper_recipes::{Keeper, Mutex};
use lockkeeper_redis::RedisBackend;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::peers::PlainLock;
use crate::{median, ratio};

/// How many clients want the lock.
const CLIENTS: u32 = 32;

/// How long each holds the lock: the shortest possible time, and the time of a small piece of work.
pub(crate) const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];

/// How long each waits after its release.
const REST: Duration = Duration::from_millis(10);

/// How long the others wait before they try again.
const RETRY: Duration = Duration::from_millis(10);

/// How long each of both is measured in one turn, and how many turns there are.
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 5;

/// Ours must be granted at least this many times as often …
const GRANTS_BUDGET: f64 = 1.0;

/// … by at most this many times the commands for each grant.
const COMMANDS_BUDGET: f64 = 0.3;

/// Why a client ended.
type Failed = Box<dyn Error + Send + Sync>;

/// What one turn brought.
struct Turn {
    grants: f64,
    /// How many each grant took, with those that waiters sent meanwhile.
    commands: f64,
}

/// Measures, prints, and returns whether ours is within its budgets.
pub(crate) async fn measure(server: &Server, hold: Duration) -> Result<bool, Failed> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let (mut mutexes, mut plain_locks) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let url = format!("redis://{}", server.address()).parse()?;
        let keeper = Keeper::new(Arc::new(RedisBackend::open(&url)?));
        mutexes.push((keeper.mutex("crowd")?, keeper));
        plain_locks.push(PlainLock::open(server.address(), "plain crowd", number).await?);
    }
    // Opens the sessions.
    for (mutex, _) in &mutexes {
        mutex.lock().await?.release().await?;
    }
    for _ in 0..TURNS {
        ours.push(turn(server, mutexes.iter().map(|(mutex, _)| contend(mutex.clone(), hold))).await?);
        plain.push(turn(server, plain_locks.iter().map(|lock| retry(lock.clone(), hold))).await?);
    }
    for (_, keeper) in &mutexes {
        keeper.close().await?;
    }
    let of = |turns: &[Turn], what: fn(&Turn) -> f64| turns.iter().map(what).collect::<Vec<_>>();
    let [our_grants, grants] = [&ours, &plain].map(|turns| of(turns, |turn| turn.grants));
    let [our_commands, commands] = [&ours, &plain].map(|turns| of(turns, |turn| turn.commands));
    let ratios = [(&our_grants, &grants), (&our_commands, &commands)].map(|(ours, theirs)| median(ratio(ours, theirs)));
    println!(
        "{CLIENTS} clients, each holds for {} ms and rests for {} ms, median of {TURNS} turns of {} s:",
        hold.as_millis(),
        REST.as_millis(),
        TURN.as_secs()
    );
    println!(
        "  lockkeeper                 {:>7.0} grants  {:>7.1} commands for each",
        median(our_grants),
        median(our_commands)
    );
    println!(
        "  SET NX PX, retry in {} ms  {:>7.0} grants  {:>7.1} commands for each",
        RETRY.as_millis(),
        median(grants),
        median(commands)
    );
    println!("  ratio                      {:>7.2}        {:>7.2}", ratios[0], ratios[1]);
    println!("  budget                  >= {GRANTS_BUDGET:>7.2}     <= {COMMANDS_BUDGET:>7.2}");
    Ok(ratios[0] >= GRANTS_BUDGET && ratios[1] <= COMMANDS_BUDGET)
}

/// Lets clients contend for one turn, and counts. Each tells how often it was granted the lock.
async fn turn<C>(server: &Server, clients: C) -> Result<Turn, Failed>
where
    C: Iterator<Item: Future<Output = Result<u32, Failed>> + Send + 'static>,
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

async fn contend(mutex: Mutex, hold: Duration) -> Result<u32, Failed> {
    let end = SystemClock.now().saturating_add(TURN);
    let mut grants = 0;
    while SystemClock.now() < end {
        let guard = mutex.lock().await?;
        pause(hold).await;
        guard.release().await?;
        grants += 1;
        sleep(REST).await;
    }
    Ok(grants)
}

async fn retry(mut lock: PlainLock, hold: Duration) -> Result<u32, Failed> {
    let end = SystemClock.now().saturating_add(TURN);
    let mut grants = 0;
    while SystemClock.now() < end {
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
