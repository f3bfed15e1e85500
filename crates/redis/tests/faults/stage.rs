//! Clients, rivals that wait for the locks of others, and rounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockkeeper_conformance::{Party, Random, Waiting, soon};
use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::long;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_redis::RedisBackend;

use crate::tally::{Outcome, Tally};

/// How long after a fault a rival must be granted the lock: the server's restart, the timeout, and the timeout anew.
const GRANTED_WITHIN: Duration = Duration::from_secs(30);

/// Reads the clock by which everything here is measured; all processes of a machine share it.
pub(crate) fn now() -> BootInstant {
    SystemClock.now()
}

/// The URL of these servers, of which one is a master.
pub(crate) fn url(servers: &[SocketAddr], settings: &str) -> String {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    format!("redis://{}?{settings}", hosts.join(","))
}

pub(crate) fn backend(url: &str) -> RedisBackend {
    RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

pub(crate) fn keeper(url: &str) -> Keeper {
    Keeper::new(Arc::new(backend(url)))
}

/// A client that waits for a lock that another one holds.
pub(crate) struct Rival {
    party: Party,
    waiting: Waiting<Granted>,
}

/// A grant to a rival.
#[derive(Debug)]
pub(crate) struct Granted {
    guard: MutexGuard,
    pub(crate) at: BootInstant,
}

impl Granted {
    pub(crate) fn token(&self) -> FencingToken {
        self.guard.fencing_token()
    }
}

impl Rival {
    /// Asks for the lock; comes back once the rival has joined the queue.
    pub(crate) async fn queue_up(servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        let party = Party::over(Arc::new(backend(&url(servers, settings))), retry);
        let mutex = party.keeper.mutex(lock).expect("a name");
        let asking = async move {
            let guard = mutex.lock().await?;
            Ok(Granted { guard, at: now() })
        };
        let waiting = party.queue_up_for(asking).await;
        Self { party, waiting }
    }

    /// How many contenders it sees.
    pub(crate) async fn contenders(&self, lock: &str) -> usize {
        self.party.contenders(lock).await
    }

    /// Waits for the grant.
    pub(crate) async fn granted(&mut self) -> Granted {
        let granted = tokio::time::timeout(GRANTED_WITHIN, &mut self.waiting).await;
        let granted =
            granted.unwrap_or_else(|_| panic!("the rival was not granted the lock within {GRANTED_WITHIN:?}"));
        granted.expect("no panic").expect("the server serves")
    }

    /// Gives the lock back, and ends.
    pub(crate) async fn end(self, granted: Granted) {
        soon("the release", granted.guard.release()).await.expect("the server serves");
        soon("closing", self.party.keeper.close()).await.expect("the server serves");
    }
}

/// Plays a number of rounds in all, on so many threads at the same time; returns what they show.
pub(crate) fn play_rounds<Playing: Future<Output = Vec<Outcome>>>(
    rounds: u32,
    at_once: u32,
    mut random: Random,
    play: impl Fn(u32, Random) -> Playing + Sync,
) -> Tally {
    let rounds = long::rounds(rounds);
    let begun = now();
    let play = &play;
    let outcomes = thread::scope(|scope| {
        let played: Vec<_> = (0..at_once.min(rounds))
            .map(|first| {
                let mut random = random.split();
                scope.spawn(move || {
                    let mut outcomes = Vec::new();
                    for round in (first..rounds).step_by(at_once as usize) {
                        let played = runtime().block_on(play(round, random.split()));
                        played.iter().for_each(|outcome| println!("{outcome}"));
                        outcomes.extend(played);
                    }
                    outcomes
                })
            })
            .collect();
        played.into_iter().flat_map(|played| played.join().expect("the rounds of a thread")).collect()
    });
    Tally { outcomes, took: now().saturating_duration_since(begun) }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}
