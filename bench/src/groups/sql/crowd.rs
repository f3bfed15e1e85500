//! A thousand waiters: how soon after a release the next one has the lock, and how many statements that takes, beside a
//! lock that asks every 100 ms.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Keeper, MutexGuard};
use lockkeeper_conformance::Joins;
use lockkeeper_faults::{postgres, process};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::groups::ours::Bench;
use crate::groups::sql::server::Server;
use crate::load::Failed;
use crate::load::Outcome;
use crate::load::{Effort, Stopwatch, median};
use crate::peers::sql::POLL_INTERVAL;
use crate::report::Group;

/// How many waiters a crowd has, in how many clients.
const WAITERS: u32 = 1_000;
const WAITERS_PER_CLIENT: usize = 10;

/// How long each of the crowd holds the lock.
const HOLD: Duration = Duration::from_millis(10);

/// For how long the statements of a crowd that only asks are counted.
const COUNTED: Duration = Duration::from_secs(3);

/// How long a server may take to count what it has executed.
const TOLD_AFTER: Duration = Duration::from_millis(1_200);

const NAME: &str = "crowd";

/// What is shared by waiters: when the lock was given back last, and the times of the hand-offs, in seconds.
#[derive(Default)]
struct HandOffs {
    given_back: Option<Stopwatch>,
    times_s: Vec<f64>,
}

pub(super) async fn of_waiters(server: &Server, one_s: f64, bench: &mut Bench) -> Outcome<()> {
    let waiters = bench.effort.calls(WAITERS) as usize;
    let (hand_off_s, statements) = ours(server, waiters).await?;
    let theirs = statements_of_those_that_ask(server, waiters, bench.effort).await?;
    let mut shelf = bench.shelf(Group::Sql, server.name());
    shelf.beside("thousand-waiters", hand_off_s, one_s);
    shelf.beside("thousand-statements", statements, theirs);
    Ok(())
}

async fn ours(server: &Server, count: usize) -> Outcome<(f64, f64)> {
    let first = server.keeper()?;
    let held = first.mutex(NAME)?.lock().await?;
    let joins = Arc::new(Joins::default());
    joins.begin();
    let keepers: Outcome<Vec<_>> = (0..count.div_ceil(WAITERS_PER_CLIENT)).map(|_| observed(server, &joins)).collect();
    let keepers = keepers?;
    let hand_offs = Arc::new(Mutex::new(HandOffs::default()));
    let mut waiters = Vec::with_capacity(count);
    for number in 0..count {
        let mutex = keepers[number % keepers.len()].mutex(NAME)?;
        let hand_offs = hand_offs.clone();
        waiters.push(tokio::spawn(async move {
            let guard = mutex.lock().await?;
            {
                let mut hand_offs = hand_offs.lock().await;
                let given_back = hand_offs.given_back.ok_or("a grant before the release")?;
                hand_offs.times_s.push(given_back.elapsed().as_secs_f64());
            }
            tokio::time::sleep(HOLD).await;
            hand_offs.lock().await.given_back = Some(Stopwatch::start());
            guard.release().await?;
            Ok::<_, Failed>(())
        }));
    }
    joins.reached(count).await;
    tokio::time::sleep(TOLD_AFTER).await;
    let (before, watch) = (server.statements().await?, Stopwatch::start());
    hand_offs.lock().await.given_back = Some(Stopwatch::start());
    held.release().await?;
    for waiter in waiters {
        waiter.await??;
    }
    let took = watch.elapsed().as_secs_f64();
    tokio::time::sleep(TOLD_AFTER).await;
    let statements = (server.statements().await? - before) / took;
    for keeper in keepers {
        keeper.close().await?;
    }
    let times_s = std::mem::take(&mut hand_offs.lock().await.times_s);
    Ok((median(times_s), statements))
}

/// A client of ours with a long session: opening so many at once takes the server its time.
fn observed(server: &Server, joins: &Arc<Joins>) -> Outcome<Keeper> {
    let url = format!("{}?session_timeout=60s", server.url());
    Ok(lockkeeper::builder(&*url)?.observer(joins.clone()).build())
}

async fn statements_of_those_that_ask(server: &Server, count: usize, effort: Effort) -> Outcome<f64> {
    let mut holder = server.shedlock(NAME, "holder").await?;
    holder.lock(NAME).await?;
    let mut asking = Vec::with_capacity(count);
    for number in 0..count.div_ceil(WAITERS_PER_CLIENT) {
        let peer = Arc::new(Mutex::new(server.shedlock(NAME, &format!("client {number}")).await?));
        for _ in 0..WAITERS_PER_CLIENT.min(count - number * WAITERS_PER_CLIENT) {
            let peer = peer.clone();
            asking.push(tokio::spawn(async move {
                loop {
                    // Other waiters of the client have its connection while this one pauses.
                    let locked = peer.lock().await.try_lock(NAME).await;
                    // What ends the asking is found by the one that counts.
                    if !matches!(locked, Ok(false)) {
                        break;
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }));
        }
    }
    let (before, watch) = (server.statements().await?, Stopwatch::start());
    tokio::time::sleep(effort.time(COUNTED).max(POLL_INTERVAL)).await;
    if asking.iter().any(JoinHandle::is_finished) {
        return Err("a waiter that asks has ended before its time".into());
    }
    asking.iter().for_each(JoinHandle::abort);
    let took = watch.elapsed().as_secs_f64();
    tokio::time::sleep(TOLD_AFTER).await;
    let statements = (server.statements().await? - before) / took;
    holder.release(NAME).await?;
    Ok(statements)
}

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

pub(super) async fn beside_listeners(server: &Server, bench: &mut Bench) -> Outcome<()> {
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
