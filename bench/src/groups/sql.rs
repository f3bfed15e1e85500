//! Databases: ours beside ShedLock's statements and the databases' own locks, alone; beside a lock that asks every
//! 100 ms, with one waiter and with a thousand; and what other clients of PostgreSQL keep of their commits beside
//! waiters that listen.
//!
//! All run on one thread, so that statements are compared, and not how soon a busy machine wakes the threads of one
//! program.

mod crowd;
mod server;

use std::time::Duration;

use crate::groups::ours::{self, Bench};
use crate::groups::sql::server::Server;
use crate::load::Failed;
use crate::load::Outcome;
use crate::load::{Stopwatch, median, one_thread, timed};
use crate::report::Group;
use crate::report::rows::{MARIADB, POSTGRES};

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    for name in [POSTGRES, MARIADB] {
        if let Err(why) = one_thread()?.block_on(on(name, bench)) {
            bench.record.failed(Group::Sql, Some(name), &why.to_string());
        }
    }
    Ok(())
}

async fn on(name: &'static str, bench: &mut Bench) -> Outcome<()> {
    bench.now(&format!("sql: {name}, one task"));
    let server = Server::start(name).await?;
    alone(&server, bench).await?;
    bench.now(&format!("sql: {name}, one waiter"));
    let one_s = waiting(&server, bench).await?;
    bench.now(&format!("sql: {name}, a thousand waiters"));
    crowd::of_waiters(&server, one_s, bench).await?;
    if name == POSTGRES {
        bench.now("sql: pgbench beside listeners");
        crowd::beside_listeners(&server, bench).await?;
    }
    Ok(())
}

/// How many locks each takes in one turn.
const CALLS: u32 = 100;

/// How many turns warm up, and how many are counted.
const TURNS: [usize; 2] = [4, 21];

/// The name of the other's lock.
const LOCK_ALONE: &str = "alone";

async fn alone(server: &Server, bench: &mut Bench) -> Outcome<()> {
    let keeper = server.keeper()?;
    let ours = keeper.mutex("ours")?;
    let mut shedlock = server.shedlock(LOCK_ALONE, "one").await?;
    let mut advisory = server.advisory().await?;
    let calls = bench.effort.calls(CALLS);
    let turns = TURNS.map(|turns| bench.effort.turns(turns));
    let compared = bench
        .turns
        .compare::<3>(turns, async |number| match number {
            0 => ours::alone(&ours, calls).await,
            1 => timed(calls, async || shedlock.lock_and_release(LOCK_ALONE).await).await,
            _ => timed(calls, async || advisory.lock_and_release().await).await,
        })
        .await?;
    keeper.close().await?;
    bench.shelf(Group::Sql, server.name()).compared(&["shedlock", "advisory"], &compared);
    Ok(())
}

/// How many hand-offs from one to another are measured in one round.
const HAND_OFFS: usize = 8;

const LOCK_WAITED: &str = "waiting";

/// Measures; answers the median hand-off of ours, in seconds.
async fn waiting(server: &Server, bench: &mut Bench) -> Outcome<f64> {
    let mut ours_s = Vec::new();
    for round in 0..bench.effort.rounds() {
        let numbers = round * HAND_OFFS..round * HAND_OFFS + bench.effort.turns(HAND_OFFS);
        let times = bench.turns.each(async |number| match number {
            0 => ours_between_two(server, numbers.clone()).await,
            _ => theirs_between_two(server, numbers.clone()).await,
        });
        let [ours, theirs] = times.await?;
        bench.shelf(Group::Sql, server.name()).beside("one-waiter", ours, theirs);
        ours_s.push(ours);
    }
    Ok(median(ours_s))
}

/// Hand-offs between two clients, each in its turn a holder and a waiter.
async fn ours_between_two(server: &Server, numbers: impl Iterator<Item = usize>) -> Outcome<f64> {
    let keepers = [server.keeper()?, server.keeper()?];
    let mutexes = [keepers[0].mutex(LOCK_WAITED)?, keepers[1].mutex(LOCK_WAITED)?];
    // Opens the session of the other one.
    ours::lock_and_release(&mutexes[1]).await?;
    let mut held = mutexes[0].lock().await?;
    let mut times = Vec::new();
    for (turn, number) in numbers.enumerate() {
        let waiter = mutexes[(turn + 1) % 2].clone();
        let waiting = tokio::spawn(async move { waiter.lock().await });
        tokio::time::sleep(pause(number)).await;
        let watch = Stopwatch::start();
        held.release().await?;
        held = waiting.await??;
        times.push(watch.elapsed().as_secs_f64());
    }
    held.release().await?;
    for keeper in keepers {
        keeper.close().await?;
    }
    Ok(median(times))
}

async fn theirs_between_two(server: &Server, numbers: impl Iterator<Item = usize>) -> Outcome<f64> {
    let mut ann = server.shedlock(LOCK_WAITED, "ann").await?;
    let mut bob = server.shedlock(LOCK_WAITED, "bob").await?;
    ann.lock(LOCK_WAITED).await?;
    let mut times = Vec::new();
    for number in numbers {
        let waiting = tokio::spawn(async move {
            bob.lock(LOCK_WAITED).await?;
            Ok::<_, Failed>(bob)
        });
        tokio::time::sleep(pause(number)).await;
        let watch = Stopwatch::start();
        ann.release(LOCK_WAITED).await?;
        let next = waiting.await??;
        times.push(watch.elapsed().as_secs_f64());
        (ann, bob) = (next, ann);
    }
    ann.release(LOCK_WAITED).await?;
    Ok(median(times))
}

/// How long the waiter has waited when the lock is given back: a tenth of a second and another part of one each time.
fn pause(number: usize) -> Duration {
    let part = u64::try_from(number * 37 % 100).unwrap_or_default();
    Duration::from_millis(100 + part)
}
