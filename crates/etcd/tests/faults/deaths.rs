//! Holders that die, stand still or are cut off while the cluster goes on.

use std::sync::Arc;

use lockkeeper_conformance::Random;
use lockkeeper_faults::etcd::{Cluster, Release};
use lockkeeper_trials::Outcome;
use lockkeeper_trials::deaths::Death;

use crate::service::ETCD;
use crate::stage::on_both_releases;

/// The least that etcd grants: a round takes little more.
const SETTINGS: &str = "session_timeout=2s";

/// How many locks of one cluster are played with at the same time.
const LOCKS: u32 = 5;

pub(crate) fn play(death: Death, random: Random) -> Result<(), String> {
    let tally = on_both_releases(death.rounds(), random, |release, rounds, random| {
        play_release(death, release, rounds, random)
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    tally.check(death.asked_for())
}

async fn play_release(death: Death, release: Release, rounds: u32, mut random: Random) -> Vec<Outcome> {
    let cluster = Arc::new(Cluster::start(release, 3).await.expect("a cluster"));
    let locks = LOCKS.min(rounds);
    let playing: Vec<_> = (0..locks)
        .map(|lock| {
            let share = rounds / locks + u32::from(lock < rounds % locks);
            tokio::spawn(play_lock(death, cluster.clone(), format!("{death:?}-{lock}"), share, random.split()))
        })
        .collect();
    let mut outcomes = Vec::new();
    for played in playing {
        outcomes.extend(played.await.expect("the rounds of a lock"));
    }
    outcomes
}

async fn play_lock(death: Death, cluster: Arc<Cluster>, lock: String, rounds: u32, mut random: Random) -> Vec<Outcome> {
    let addresses = cluster.addresses();
    let mut outcomes = Vec::new();
    for _ in 0..rounds {
        outcomes.push(death.play(&ETCD, &addresses, SETTINGS, &lock, &mut random).await);
    }
    outcomes
}
