//! Holders that die, stand still or are cut off while the cluster goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::etcd::{Cluster, Release};
use lockkeeper_faults::long;

use crate::holders::{Holder, Other};
use crate::stage::{Rival, now, on_both_releases, url};
use crate::tally::Outcome;

/// The least that etcd grants: a round takes little more.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// How many locks of one cluster are played with at the same time.
const LOCKS: u32 = 5;

/// How long after the rival has joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 400;

/// What becomes of the holder.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Killed,
    Stopped,
    CutOff,
}

impl Death {
    const fn rounds(self) -> u32 {
        match self {
            Self::Killed => 200,
            Self::Stopped | Self::CutOff => 50,
        }
    }
}

pub(crate) fn play(death: Death, random: Random) -> Result<(), String> {
    let tally = on_both_releases(death.rounds(), random, |release, rounds, random| {
        play_release(death, release, rounds, random)
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    tally.check(long::rounds(death.rounds()))
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
    let mut outcomes = Vec::new();
    for _ in 0..rounds {
        let pause = Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS));
        outcomes.push(match death {
            Death::CutOff => cut_off(&cluster, &lock, pause).await,
            Death::Killed | Death::Stopped => strike(death, &cluster, &lock, pause).await,
        });
    }
    outcomes
}

/// Kills or stops another process that holds the lock.
async fn strike(death: Death, cluster: &Cluster, lock: &str, pause: Duration) -> Outcome {
    let addresses = cluster.addresses();
    let mut holder = Other::start(&addresses, SESSION_TIMEOUT, lock).await;
    let mut rival = Rival::queue_up(&url(&addresses, SESSION_TIMEOUT), lock, || {}).await;
    tokio::time::sleep(pause).await;
    let struck_at = now();
    match death {
        Death::Killed => holder.process.kill(),
        _ => holder.process.pause().expect("it runs"),
    }
    let granted = rival.granted().await;
    let (last_held, ended_by) = match death {
        Death::Killed => (None, None),
        _ => {
            holder.process.resume().expect("it runs");
            let (last_held, reason) = holder.lost().await;
            (Some(last_held), Some(reason))
        }
    };
    let outcome = Outcome {
        what: format!("{lock}: the holder {death:?}"),
        struck_at,
        token: holder.token,
        last_held,
        ended_by,
        next_token: granted.token(),
        granted_at: granted.at,
    };
    rival.end(granted).await;
    outcome
}

async fn cut_off(cluster: &Cluster, lock: &str, pause: Duration) -> Outcome {
    let addresses = cluster.addresses();
    let mut holder = Holder::start(&addresses, SESSION_TIMEOUT, lock).await;
    let seen = Arc::new(Mutex::new(None));
    let mut rival = Rival::queue_up(&url(&addresses, SESSION_TIMEOUT), lock, holder.look(&seen)).await;
    tokio::time::sleep(pause).await;
    let struck_at = now();
    holder.cut_off();
    let granted = rival.granted().await;
    let (last_held, reason) = holder.lost().await;
    let last_held = seen.lock().expect("no panic").unwrap_or(last_held).max(last_held);
    let outcome = Outcome {
        what: format!("{lock}: the holder cut off"),
        struck_at,
        token: holder.token,
        last_held: Some(last_held),
        ended_by: Some(reason),
        next_token: granted.token(),
        granted_at: granted.at,
    };
    holder.end().await;
    rival.end(granted).await;
    outcome
}
