//! A thousand waiters: how soon after a release the next one has the lock, and how many statements that takes, beside a
//! lock that asks every 100 ms.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_conformance::Joins;
use tokio::sync::Mutex;

use super::super::bench::Bench;
use super::server::Server;
use crate::load::{Effort, Stopwatch, median};
use crate::peers::shedlock::POLL_INTERVAL;
use crate::report::Group;
use crate::{Failed, Outcome};

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

pub(super) async fn measure(server: &Server, one_s: f64, bench: &mut Bench) -> Outcome<()> {
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
    if asking.iter().any(tokio::task::JoinHandle::is_finished) {
        return Err("a waiter that asks has ended before its time".into());
    }
    asking.iter().for_each(tokio::task::JoinHandle::abort);
    let took = watch.elapsed().as_secs_f64();
    tokio::time::sleep(TOLD_AFTER).await;
    let statements = (server.statements().await? - before) / took;
    holder.release(NAME).await?;
    Ok(statements)
}
