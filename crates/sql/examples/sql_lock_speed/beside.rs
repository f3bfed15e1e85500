//! Other clients of PostgreSQL, which do not notify, beside waiters that listen: each notification goes to all that
//! listen, one after the other.

use std::process::Stdio;
use std::time::Duration;

use lockkeeper_faults::{postgres, process};
use lockkeeper_recipes::MutexGuard;
use tokio::task::JoinHandle;

use crate::Outcome;
use crate::median;
use crate::server::Server;

/// How many clients listen: as many as may.
const LISTENERS: usize = 128;

/// One hand-off comes so long after the other: 100 a second.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long `pgbench` works in one turn, in seconds, and how many turns there are of each.
const SECONDS: &str = "3";
const TURNS: usize = 5;

/// The others keep at least this part of their commits.
const BUDGET: f64 = 0.9;

/// Measures, prints, and returns whether it is within the budget.
pub(crate) async fn measure(server: &Server) -> Outcome<bool> {
    pgbench(server, &["-i", "-q"]).await?;
    let mut listeners = Vec::with_capacity(LISTENERS);
    let mut held = Vec::with_capacity(LISTENERS);
    for number in 0..LISTENERS {
        // A holder listens too, for a request to give up.
        let keeper = server.keeper()?;
        held.push(keeper.mutex(&format!("held {number}"))?.lock().await?);
        listeners.push(keeper);
    }
    let mut kept = Vec::with_capacity(TURNS);
    let (mut alone, mut beside) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
    for _ in 0..TURNS {
        let without = commits(server).await?;
        let handing_on = hand_on(server).await?;
        let with = commits(server).await?;
        handing_on.abort();
        kept.push(with / without);
        alone.push(without);
        beside.push(with);
    }
    let (kept, alone, beside) = (median(kept), median(alone), median(beside));
    println!("PostgreSQL: pgbench beside {LISTENERS} listeners and a hand-off each {INTERVAL:?}, median of {TURNS}:");
    println!("  {alone:.0} commits a second without, {beside:.0} with: {kept:.2} are kept  (budget {BUDGET:.2})");
    drop(held);
    Ok(kept >= BUDGET)
}

/// Hands a lock on from one client to another, again and again.
async fn hand_on(server: &Server) -> Outcome<JoinHandle<()>> {
    let keepers = [server.keeper()?, server.keeper()?];
    let mutexes = [keepers[0].mutex("busy")?, keepers[1].mutex("busy")?];
    let mut held: MutexGuard = mutexes[0].lock().await?;
    Ok(tokio::spawn(async move {
        let _keepers = keepers;
        let mut ticks = tokio::time::interval(INTERVAL);
        for turn in 1_usize.. {
            let waiter = mutexes[turn % 2].clone();
            let waiting = tokio::spawn(async move { waiter.lock().await.expect("the server serves") });
            ticks.tick().await;
            held.release().await.expect("the server serves");
            held = waiting.await.expect("no panic");
        }
    }))
}

/// How many commits a second other clients make.
async fn commits(server: &Server) -> Outcome<f64> {
    let said = pgbench(server, &["-N", "-c", "4", "-T", SECONDS]).await?;
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")).ok_or("pgbench tells its rate")?;
    Ok(rate.split(' ').next().unwrap_or_default().parse()?)
}

async fn pgbench(server: &Server, arguments: &[&str]) -> Outcome<String> {
    let mut command = process::command(postgres::program("pgbench")?);
    let port = server.address().port().to_string();
    command.args(arguments).args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "postgres"]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    Ok(String::from_utf8(output.stdout)?)
}
