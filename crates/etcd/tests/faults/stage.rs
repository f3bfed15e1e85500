//! Clusters of both releases, and what an examination of one finds.

use std::net::SocketAddr;
use std::thread;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_core::{Finding, Scrutiny};
use lockkeeper_faults::etcd::Release;
use lockkeeper_faults::long;
use lockkeeper_trials::{Outcome, Tally, now};

use crate::service::ETCD;

/// What an examination of the service finds.
pub(crate) async fn findings(servers: &[SocketAddr], settings: &str) -> Vec<Finding> {
    let backend = ETCD.backend(servers, settings);
    soon("an examination", backend.admin().examine(Scrutiny::Full)).await.expect("the service answers")
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
