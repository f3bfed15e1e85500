//! A leader that is killed, or cut off from its peers, under holders that may or may not go on.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_faults::etcd::{Cluster, Release};
use lockkeeper_faults::long;
use lockkeeper_faults::namespaces::Network;

use crate::holders::{Holder, Other};
use crate::stage::{Rival, now, on_both_releases, url};
use crate::tally::Outcome;

/// How many rounds the long run has of each kind.
const ROUNDS: u32 = 20;

/// Long enough for a holder to find the next leader.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long after the rivals have joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 1_000;

pub(crate) fn play_killed(random: Random) -> Result<(), String> {
    let tally = on_both_releases(ROUNDS, random, |release, rounds, mut random| async move {
        let mut cluster = Cluster::start(release, 3).await.expect("a cluster");
        let mut outcomes = Vec::new();
        for round in 0..rounds {
            let pause = Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS));
            let played = kill(&mut cluster, release, round, pause).await;
            played.iter().for_each(|outcome| println!("{outcome}"));
            outcomes.extend(played);
        }
        outcomes
    });
    tally.tell("faults: leaders killed", &kept(&tally.outcomes));
    tally.check(long::rounds(ROUNDS))
}

pub(crate) fn play_cut_off(random: Random) -> Result<(), String> {
    let tally = on_both_releases(ROUNDS, random, |release, rounds, mut random| async move {
        let network = Arc::new(Network::new(3).expect("a network"));
        let mut cluster = Cluster::start_in(&network, release).await.expect("a cluster");
        let mut outcomes = Vec::new();
        for round in 0..rounds {
            let pause = Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS));
            let played = isolate(&mut cluster, &network, release, round, pause).await;
            played.iter().for_each(|outcome| println!("{outcome}"));
            outcomes.extend(played);
        }
        outcomes
    });
    tally.tell("faults: leaders cut off", &kept(&tally.outcomes));
    tally.check(long::rounds(ROUNDS))
}

/// How many holders held on until they gave the lock back.
fn kept(outcomes: &[Outcome]) -> String {
    let kept = outcomes.iter().filter(|outcome| outcome.was_given_back()).count();
    format!("; {kept} held on")
}

/// Kills the leader under three holders: one that goes on, one that is cut off from all members at the same time, and
/// one that is killed too.
async fn kill(cluster: &mut Cluster, release: Release, round: u32, pause: Duration) -> Vec<Outcome> {
    let addresses = cluster.addresses();
    let lock = |who: &str| format!("{release:?}-{round}-{who}");
    let [steady_lock, lonely_lock, dead_lock] = ["steady", "lonely", "dead"].map(lock);
    let rival = url(&addresses, SESSION_TIMEOUT);
    let (steady, lonely, mut dead) = tokio::join!(
        Contest::start(&addresses, &rival, &steady_lock),
        Contest::start(&addresses, &rival, &lonely_lock),
        Other::start(&addresses, SESSION_TIMEOUT, &dead_lock),
    );
    let mut dead_rival = Rival::queue_up(&rival, &dead_lock, || {}).await;
    tokio::time::sleep(pause).await;
    let leader = cluster.leader().await.expect("a leader");
    let struck_at = now();
    cluster.server_mut(leader).kill();
    lonely.holder.cut_off();
    dead.process.kill();
    let granted = dead_rival.granted().await;
    let died = Outcome {
        what: format!("{dead_lock}: the leader and the holder killed"),
        struck_at,
        token: dead.token,
        last_held: None,
        ended_by: None,
        next_token: granted.token(),
        granted_at: granted.at,
    };
    dead_rival.end(granted).await;
    let lonely = lonely.end("the leader killed, the holder cut off", struck_at, Ends::ByItself).await;
    let steady = steady.end("the leader killed", struck_at, Ends::WhenGivenBack).await;
    cluster.server_mut(leader).start().expect("started");
    cluster.serving().await.expect("all serve");
    vec![died, lonely, steady]
}

/// Cuts the leader off from its peers under two holders: one that knows no other member, and one that knows all. Their
/// rivals are on the other side.
async fn isolate(
    cluster: &mut Cluster,
    network: &Arc<Network>,
    release: Release,
    round: u32,
    pause: Duration,
) -> Vec<Outcome> {
    let addresses = cluster.addresses();
    let leader = cluster.leader().await.expect("a leader");
    let others: Vec<_> = addresses.iter().copied().filter(|address| *address != addresses[leader]).collect();
    let [steady_lock, lonely_lock] = ["steady", "lonely"].map(|who| format!("{release:?}-{round}-{who}"));
    let rival = url(&others, SESSION_TIMEOUT);
    let (steady, lonely) = tokio::join!(
        Contest::start(&addresses, &rival, &steady_lock),
        Contest::start(&addresses[leader..=leader], &rival, &lonely_lock),
    );
    tokio::time::sleep(pause).await;
    let struck_at = now();
    let cutting = network.clone();
    let cut = tokio::task::spawn_blocking(move || cutting.isolate(leader)).await;
    cut.expect("no panic").expect("cut");
    let lonely = lonely.end("the leader cut off with its client", struck_at, Ends::ByItself).await;
    let steady = steady.end("the leader cut off", struck_at, Ends::WhenGivenBack).await;
    network.heal(leader).expect("healed");
    cluster.serving().await.expect("all serve");
    vec![lonely, steady]
}

/// How a hold is to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ends {
    ByItself,
    WhenGivenBack,
}

/// A holder, and the rival behind it.
pub(crate) struct Contest {
    lock: String,
    pub(crate) holder: Holder,
    rival: Rival,
    /// When the rival found the hold standing.
    seen: Arc<Mutex<Option<BootInstant>>>,
}

impl Contest {
    /// `rival` is the URL of the rival, `holders` are the servers of the holder.
    pub(crate) async fn start(holders: &[SocketAddr], rival: &str, lock: &str) -> Self {
        let holder = Holder::start(holders, SESSION_TIMEOUT, lock).await;
        let seen = Arc::new(Mutex::new(None));
        let rival = Rival::queue_up(rival, lock, holder.look(&seen)).await;
        Self { lock: lock.to_owned(), holder, rival, seen }
    }

    /// Waits for the rival's grant, and compares.
    pub(crate) async fn end(mut self, what: &str, struck_at: BootInstant, ends: Ends) -> Outcome {
        let mut given_back = None;
        if ends == Ends::WhenGivenBack && self.holder.is_held() {
            given_back = self.holder.release().await;
        }
        let granted = self.rival.granted().await;
        let (last_held, ended_by) = match given_back {
            Some(releasing_at) => (releasing_at, None),
            None => {
                let (last_held, reason) = self.holder.lost().await;
                (last_held, Some(reason))
            }
        };
        let seen = *self.seen.lock().expect("no panic");
        let last_held = seen.filter(|_| given_back.is_none()).unwrap_or(last_held).max(last_held);
        let outcome = Outcome {
            what: format!("{}: {what}", self.lock),
            struck_at,
            token: self.holder.token,
            last_held: Some(last_held),
            ended_by,
            next_token: granted.token(),
            granted_at: granted.at,
        };
        self.holder.end().await;
        self.rival.end(granted).await;
        outcome
    }
}
