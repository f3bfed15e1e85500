//! Other clients of PostgreSQL, which do not notify, beside waiters that listen: each notification goes to all that
//! listen, one after the other.

use std::process::Stdio;
use std::time::Duration;

use lockkeeper::{Keeper, MutexGuard};
use lockkeeper_faults::{postgres, process};
use tokio::task::JoinHandle;

use super::super::bench::Bench;
use super::server::Server;
use crate::Outcome;
use crate::load::Effort;
use crate::report::Group;

/// How many clients listen: as many as may.
const LISTENERS: u32 = 128;

/// One hand-off comes so long after the other: 100 a second.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long `pgbench` works in one turn, in seconds: no less than one, which is enough to see that it works.
const fn pgbench_s(effort: Effort) -> u32 {
    match effort {
        Effort::Full => 2,
        Effort::Quick => 1,
    }
}

pub(super) async fn measure(server: &Server, bench: &mut Bench) -> Outcome<()> {
    pgbench(server, &["-i", "-q"]).await?;
    let mut listeners = Vec::new();
    for number in 0..bench.effort.calls(LISTENERS) {
        // A holder listens too, for a request to give up.
        let keeper = server.keeper()?;
        let held = keeper.mutex(&format!("held {number}"))?.lock().await?;
        listeners.push((keeper, held));
    }
    let effort = bench.effort;
    for _ in 0..effort.rounds() {
        let rates = bench.turns.each(async |number| match number {
            0 => {
                let handing_on = HandingOn::start(server).await?;
                let rate = commits(server, effort).await?;
                handing_on.end().await?;
                Ok(rate)
            }
            _ => commits(server, effort).await,
        });
        let [with, without] = rates.await?;
        bench.shelf(Group::Sql, server.name()).beside("beside", with, without);
    }
    for (keeper, held) in listeners {
        held.release().await?;
        keeper.close().await?;
    }
    Ok(())
}

/// A lock that is handed on from one client to another, again and again.
struct HandingOn {
    keepers: [Keeper; 2],
    task: JoinHandle<Outcome<()>>,
}

impl HandingOn {
    async fn start(server: &Server) -> Outcome<Self> {
        let keepers = [server.keeper()?, server.keeper()?];
        let mutexes = [keepers[0].mutex("busy")?, keepers[1].mutex("busy")?];
        let mut held: MutexGuard = mutexes[0].lock().await?;
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            for turn in 1_usize.. {
                let waiter = mutexes[turn % 2].clone();
                let waiting = tokio::spawn(async move { waiter.lock().await });
                ticks.tick().await;
                held.release().await?;
                held = waiting.await??;
            }
            Ok(())
        });
        Ok(Self { keepers, task })
    }

    /// Ends it; fails if it has failed meanwhile.
    async fn end(self) -> Outcome<()> {
        self.task.abort();
        if let Ok(ended) = self.task.await {
            ended?;
        }
        for keeper in self.keepers {
            keeper.close().await?;
        }
        Ok(())
    }
}

/// How many commits a second other clients make.
async fn commits(server: &Server, effort: Effort) -> Outcome<f64> {
    let said = pgbench(server, &["-N", "-c", "4", "-T", &pgbench_s(effort).to_string()]).await?;
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")).ok_or("pgbench does not tell its rate")?;
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
