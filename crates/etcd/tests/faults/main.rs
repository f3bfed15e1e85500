//! One lock at a time, under faults: holders that die, stand still or are cut off, and leaders of a cluster of three
//! that are killed, cut off from their peers, or stand still and go on.
//!
//! In each round a holder and a rival that waits behind it are clients of one cluster. Until when the holder believes
//! itself is compared with when the rival is granted the lock, on one clock; and the rival's token is greater. Half of
//! the rounds are played on Debian's etcd, half on 3.5.1. It is a separate binary, since it has long rounds, and plays
//! the other process too.
//!
//! What the trials of all backends share is in `lockkeeper-trials`.

#[path = "../../src/session/belief.rs"]
#[expect(dead_code, reason = "the trials need the rule of belief alone")]
mod belief;
mod leaders;
#[path = "../support/service.rs"]
mod service;
mod standstill;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use libtest_mimic::Trial;
use lockkeeper_conformance::{Random, soon};
use lockkeeper_core::{Finding, Scrutiny};
use lockkeeper_faults::etcd::{Cluster, Release, availability_of};
use lockkeeper_faults::{Availability, long, namespaces};
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Outcome, Tally, now, suite};

use crate::service::ETCD;

type Test = (&'static str, fn() -> Availability, fn(Random) -> Result<(), String>);

const TESTS: [Test; 6] = [
    ("no_two_hold_when_holders_are_killed", servers, |random| play_deaths(Death::Killed, random)),
    ("no_two_hold_when_holders_are_stopped", servers, |random| play_deaths(Death::Stopped, random)),
    ("no_two_hold_when_holders_are_cut_off", servers, |random| play_deaths(Death::CutOff, random)),
    ("no_two_hold_when_leaders_are_killed", servers, leaders::play_killed),
    ("no_two_hold_when_leaders_are_cut_off_from_their_peers", networks, leaders::play_cut_off),
    ("no_two_hold_by_our_rule_when_leaders_stand_still_and_go_on", servers, standstill::play),
];

fn servers() -> Availability {
    Release::ALL.into_iter().fold(Availability::Present, |all, release| all.and(|| availability_of(release)))
}

fn networks() -> Availability {
    servers().and(namespaces::availability)
}

fn main() -> ExitCode {
    let trial = |(name, needed, play)| -> Trial {
        suite::of_rounds(concat!(env!("CARGO_PKG_NAME"), " --test faults"), name, needed, play)
    };
    suite::run(&ETCD, TESTS.map(trial).into())
}

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

/// The least that etcd grants: a round takes little more.
const DEATHS: &str = "session_timeout=2s";

/// How many locks of one cluster are played with at the same time.
const LOCKS: u32 = 5;

fn play_deaths(death: Death, random: Random) -> Result<(), String> {
    let tally = on_both_releases(death.rounds(), random, |release, rounds, random| {
        play_deaths_of(death, release, rounds, random)
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    tally.check(death.asked_for())
}

async fn play_deaths_of(death: Death, release: Release, rounds: u32, mut random: Random) -> Vec<Outcome> {
    let cluster = Arc::new(Cluster::start(release, 3).await.expect("a cluster"));
    let locks = LOCKS.min(rounds);
    let playing: Vec<_> = (0..locks)
        .map(|lock| {
            let share = rounds / locks + u32::from(lock < rounds % locks);
            tokio::spawn(play_deaths_of_lock(
                death,
                cluster.clone(),
                format!("{death:?}-{lock}"),
                share,
                random.split(),
            ))
        })
        .collect();
    let mut outcomes = Vec::new();
    for played in playing {
        outcomes.extend(played.await.expect("the rounds of a lock"));
    }
    outcomes
}

async fn play_deaths_of_lock(
    death: Death,
    cluster: Arc<Cluster>,
    lock: String,
    rounds: u32,
    mut random: Random,
) -> Vec<Outcome> {
    let addresses = cluster.addresses();
    let mut outcomes = Vec::new();
    for _ in 0..rounds {
        outcomes.push(death.play(&ETCD, &addresses, DEATHS, &lock, &mut random).await);
    }
    outcomes
}
