//! Clusters, clients of them, and rivals that wait for the locks of others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lockkeeper_conformance::{Party, Random, Waiting, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{Backend, FencingToken, Finding, Scrutiny};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd::Release;
use lockkeeper_faults::long;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Keeper, MutexGuard};

use crate::tally::{Outcome, Tally};

/// How long after a fault a rival must be granted the lock: the timeout, an election, and the timeout anew.
const GRANTED_WITHIN: Duration = Duration::from_secs(30);

/// Reads the clock by which everything here is measured; all processes of a machine share it.
pub(crate) fn now() -> BootInstant {
    SystemClock.now()
}

/// The URL of these servers.
pub(crate) fn url(servers: &[SocketAddr], timeout: Duration) -> String {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    format!("etcd://{}?session_timeout={}s", hosts.join(","), timeout.as_secs())
}

fn backend(url: &str) -> EtcdBackend {
    EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

pub(crate) fn keeper(url: &str) -> Keeper {
    Keeper::new(Arc::new(backend(url)))
}

/// What an examination of the service finds.
pub(crate) async fn findings(url: &str) -> Vec<Finding> {
    soon("an examination", backend(url).examine(Scrutiny::Full)).await.expect("the service answers")
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
    /// Queues behind the holder; `look` is called first thing when the lock is granted.
    pub(crate) async fn queue_up(url: &str, lock: &str, look: impl FnOnce() + Send + 'static) -> Self {
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        let party = Party::over(Arc::new(backend(url)), retry);
        let mutex = party.keeper.mutex(lock).expect("a name");
        let asking = async move {
            let guard = mutex.lock().await?;
            let at = now();
            look();
            Ok(Granted { guard, at })
        };
        let waiting = party.queue_up_for(asking).await;
        assert_eq!(party.contenders(lock).await, 2, "{lock}: the holder, and the rival");
        Self { party, waiting }
    }

    /// Waits for the grant.
    pub(crate) async fn granted(&mut self) -> Granted {
        let granted = tokio::time::timeout(GRANTED_WITHIN, &mut self.waiting).await;
        let granted =
            granted.unwrap_or_else(|_| panic!("the rival was not granted the lock within {GRANTED_WITHIN:?}"));
        granted.expect("no panic").expect("the majority serves")
    }

    /// Gives the lock back, and ends.
    pub(crate) async fn end(self, granted: Granted) {
        soon("the release", granted.guard.release()).await.expect("the majority serves");
        soon("closing", self.party.keeper.close()).await.expect("the majority serves");
    }
}

/// Plays a number of rounds in all, half of them on each release, at the same time; returns what they show.
pub(crate) fn on_both_releases<Playing: Future<Output = Vec<Outcome>>>(
    rounds: u32,
    mut random: Random,
    play: impl Fn(Release, u32, Random) -> Playing + Sync,
) -> Tally {
    let rounds = long::rounds(rounds);
    let begun = now();
    let shares = Release::ALL.into_iter().zip([rounds / 2, rounds.div_ceil(2)]);
    let play = &play;
    let outcomes = thread::scope(|scope| {
        let played: Vec<_> = shares
            .filter(|(_, share)| *share > 0)
            .map(|(release, share)| {
                let random = random.split();
                scope.spawn(move || runtime().block_on(play(release, share, random)))
            })
            .collect();
        played.into_iter().flat_map(|played| played.join().expect("the rounds of a release")).collect()
    });
    Tally { outcomes, took: now().saturating_duration_since(begun) }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
