//! A leader that is killed, or cut off from its peers, under holders that may or may not go on.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::etcd::{Cluster, Release};
use lockkeeper_faults::long;
use lockkeeper_faults::namespaces::Network;
use lockkeeper_trials::{Contest, Ends, Outcome, now};

use crate::on_both_releases;
use crate::service::ETCD;

const ROUNDS: u32 = 20;

/// Long enough for a holder to find the next leader.
const SETTINGS: &str = "session_timeout=5s";

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
    let [steady, lonely, dead] = ["steady", "lonely", "dead"].map(|who| format!("{release:?}-{round}-{who}"));
    let (steady, lonely, mut dead) = tokio::join!(
        Contest::start(&ETCD, &addresses, SETTINGS, &steady),
        Contest::start(&ETCD, &addresses, SETTINGS, &lonely),
        Contest::start(&ETCD, &addresses, SETTINGS, &dead),
    );
    tokio::time::sleep(pause).await;
    let leader = cluster.leader().await.expect("a leader");
    let struck_at = now();
    cluster.server_mut(leader).kill();
    lonely.holder.cut_off();
    dead.holder.kill();
    let died = dead.end("the leader and the holder killed", struck_at, Ends::Killed).await;
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
    let [steady, lonely] = ["steady", "lonely"].map(|who| format!("{release:?}-{round}-{who}"));
    let rivals = (&others[..], SETTINGS);
    let (steady, lonely) = tokio::join!(
        Contest::between(&ETCD, (&addresses, SETTINGS), rivals, &steady),
        Contest::between(&ETCD, (&addresses[leader..=leader], SETTINGS), rivals, &lonely),
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
