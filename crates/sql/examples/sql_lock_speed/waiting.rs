//! Waiters: how soon after a release the next one has the lock, one waiter and a thousand, and how many statements that
//! takes, beside a lock that asks every 100 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_conformance::Joins;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_recipes::Keeper;
use lockkeeper_sql::SqlBackend;
use tokio::sync::Mutex;

use crate::peers::Peer;
use crate::server::Server;
use crate::{Outcome, median};

/// How many hand-offs from one to another are measured.
const HAND_OFFS: usize = 60;

/// How many waiters a crowd has, in how many clients.
const WAITERS: usize = 1_000;
const CLIENTS: usize = 100;

/// How long each of the crowd holds the lock.
const HOLD: Duration = Duration::from_millis(10);

/// For how long the statements of a crowd that only asks are counted.
const COUNTED: Duration = Duration::from_secs(3);

/// How long a server may take to count what it has executed.
const TOLD_AFTER: Duration = Duration::from_millis(1_200);

/// One waiter's hand-off may take this part of what the other takes.
const ONE_BUDGET: f64 = 0.05;

/// A thousand waiters' hand-off may take this many times one waiter's …
const CROWD_BUDGET: f64 = 2.0;

/// … with this part of the other's statements a second.
const STATEMENTS_BUDGET: f64 = 0.1;

const NAME: &str = "waiting";

/// What one waiter's hand-offs have shown.
pub(crate) struct One {
    pub(crate) is_within: bool,
    pub(crate) hand_off_s: f64,
}

/// When the lock was given back last, for the next one to compare.
#[derive(Default)]
struct GivenBack(AtomicU64);

impl GivenBack {
    fn note(&self) {
        self.0.store(SystemClock.now().as_nanos(), Ordering::SeqCst);
    }

    fn ago_s(&self) -> f64 {
        let given_back = BootInstant::from_nanos(self.0.load(Ordering::SeqCst));
        SystemClock.now().saturating_duration_since(given_back).as_secs_f64()
    }
}

/// Hand-offs between two clients, each in its turn a holder and a waiter.
pub(crate) async fn one(server: &Server) -> Outcome<One> {
    let ours = ours_between_two(server).await?;
    let theirs = theirs_between_two(server).await?;
    let ratio = ours / theirs;
    println!("{}: one waiter, from the release to the next grant, median of {HAND_OFFS}:", server.kind());
    println!("  lockkeeper             {:>7.2} ms", ours * 1e3);
    println!("  asking every 100 ms    {:>7.2} ms  ratio {ratio:>5.3}  (budget {ONE_BUDGET:.3})", theirs * 1e3);
    Ok(One { is_within: ratio <= ONE_BUDGET, hand_off_s: ours })
}

async fn ours_between_two(server: &Server) -> Outcome<f64> {
    let keepers = [observed(server, None)?, observed(server, None)?];
    let [ann, bob] = [keepers[0].mutex(NAME)?, keepers[1].mutex(NAME)?];
    let mut held = ann.lock().await?;
    let mut times = Vec::with_capacity(HAND_OFFS);
    for number in 0..HAND_OFFS {
        let waiter = if number % 2 == 0 { bob.clone() } else { ann.clone() };
        let waiting = tokio::spawn(async move { waiter.lock().await });
        tokio::time::sleep(pause(number)).await;
        let begun = SystemClock.now();
        held.release().await?;
        held = waiting.await??;
        times.push(SystemClock.now().saturating_duration_since(begun).as_secs_f64());
    }
    held.release().await?;
    for keeper in keepers {
        keeper.close().await?;
    }
    Ok(median(times))
}

async fn theirs_between_two(server: &Server) -> Outcome<f64> {
    let mut ann = Peer::open(server, NAME, "ann".to_owned()).await?;
    let mut bob = Peer::open(server, NAME, "bob".to_owned()).await?;
    ann.lock(NAME).await?;
    let mut times = Vec::with_capacity(HAND_OFFS);
    for number in 0..HAND_OFFS {
        let waiting = tokio::spawn(async move {
            bob.lock(NAME).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(bob)
        });
        tokio::time::sleep(pause(number)).await;
        let begun = SystemClock.now();
        ann.release(NAME).await?;
        let next = waiting.await??;
        times.push(SystemClock.now().saturating_duration_since(begun).as_secs_f64());
        (ann, bob) = (next, ann);
    }
    ann.release(NAME).await?;
    Ok(median(times))
}

/// How long the waiter has waited when the lock is given back: a tenth of a second and another part of one each time.
fn pause(number: usize) -> Duration {
    let part = u64::try_from(number * 37 % 100).unwrap_or_default();
    Duration::from_millis(100 + part)
}

fn observed(server: &Server, joins: Option<&Arc<Joins>>) -> Outcome<Keeper> {
    let backend = Arc::new(SqlBackend::open(&format!("{}?session_timeout=60s", server.url()).parse()?)?);
    Ok(match joins {
        Some(joins) => Keeper::builder(backend).observer(joins.clone()).build(),
        None => Keeper::new(backend),
    })
}

/// A thousand waiters of a hundred clients, each of which holds the lock for a moment.
pub(crate) async fn thousand(server: &Server, one_s: f64) -> Outcome<bool> {
    let (hand_off_s, statements) = ours_of_thousand(server).await?;
    let theirs = statements_of_thousand_that_ask(server).await?;
    let (ratio, statements_ratio) = (hand_off_s / one_s, statements / theirs);
    println!("{}: {WAITERS} waiters of {CLIENTS} clients, each holds for {HOLD:?}:", server.kind());
    println!(
        "  hand-off (median)      {:>7.2} ms  ratio {ratio:>5.2} to one waiter's  (budget {CROWD_BUDGET:.2})",
        hand_off_s * 1e3
    );
    println!("  statements a second    {statements:>7.0}");
    println!("  asking every 100 ms    {theirs:>7.0}  ratio {statements_ratio:>5.3}  (budget {STATEMENTS_BUDGET:.2})");
    Ok(ratio <= CROWD_BUDGET && statements_ratio <= STATEMENTS_BUDGET)
}

async fn ours_of_thousand(server: &Server) -> Outcome<(f64, f64)> {
    let first = observed(server, None)?;
    let held = first.mutex("crowd")?.lock().await?;
    let joins = Arc::new(Joins::default());
    joins.begin();
    let keepers: Result<Vec<_>, _> = (0..CLIENTS).map(|_| observed(server, Some(&joins))).collect();
    let keepers = keepers?;
    let (given_back, times) = (Arc::<GivenBack>::default(), Arc::new(Mutex::new(Vec::with_capacity(WAITERS))));
    let mut waiters = Vec::with_capacity(WAITERS);
    for number in 0..WAITERS {
        let mutex = keepers[number % CLIENTS].mutex("crowd")?;
        let (given_back, times) = (given_back.clone(), times.clone());
        waiters.push(tokio::spawn(async move {
            let guard = mutex.lock().await?;
            times.lock().await.push(given_back.ago_s());
            tokio::time::sleep(HOLD).await;
            given_back.note();
            guard.release().await
        }));
    }
    joins.reached(WAITERS).await;
    tokio::time::sleep(TOLD_AFTER).await;
    let (before, begun) = (server.statements().await?, SystemClock.now());
    given_back.note();
    held.release().await?;
    for waiter in waiters {
        waiter.await??;
    }
    let took = SystemClock.now().saturating_duration_since(begun).as_secs_f64();
    tokio::time::sleep(TOLD_AFTER).await;
    let statements = (server.statements().await? - before) / took;
    for keeper in keepers {
        keeper.close().await?;
    }
    let times = std::mem::take(&mut *times.lock().await);
    Ok((median(times), statements))
}

async fn statements_of_thousand_that_ask(server: &Server) -> Outcome<f64> {
    let mut holder = Peer::open(server, NAME, "holder".to_owned()).await?;
    holder.lock(NAME).await?;
    let mut asking = Vec::with_capacity(WAITERS);
    for number in 0..CLIENTS {
        let peer = Arc::new(Mutex::new(Peer::open(server, NAME, format!("client {number}")).await?));
        for _ in 0..WAITERS / CLIENTS {
            let peer = peer.clone();
            asking.push(tokio::spawn(async move {
                loop {
                    let locked = peer.lock().await.try_lock(NAME).await;
                    assert!(!locked.expect("the server serves"), "another one holds it");
                    tokio::time::sleep(crate::peers::POLL_INTERVAL).await;
                }
            }));
        }
    }
    let (before, begun) = (server.statements().await?, SystemClock.now());
    tokio::time::sleep(COUNTED).await;
    asking.iter().for_each(tokio::task::JoinHandle::abort);
    let took = SystemClock.now().saturating_duration_since(begun).as_secs_f64();
    tokio::time::sleep(TOLD_AFTER).await;
    let statements = (server.statements().await? - before) / took;
    holder.release(NAME).await?;
    Ok(statements)
}
