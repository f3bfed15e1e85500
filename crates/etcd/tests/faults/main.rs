//! One lock at a time, under faults: holders that die, stand still or are cut off, and leaders of a cluster of three
//! that are killed, cut off from their peers, or stand still and go on.
//!
//! In each round a holder and a rival that waits behind it are clients of one cluster. Until when the holder believes
//! itself is compared with when the rival is granted the lock, on one clock; and the rival's token is greater. Half of
//! the rounds are played on Debian's etcd, half on 3.5.1. It is a separate binary, since it has long rounds, and plays
//! the other process too.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `deaths` | holders that are killed, stopped, or cut off |
//! | `leaders` | a leader that is killed, or cut off from its peers |
//! | `standstill` | a leader that stands still and goes on; what a simpler rule believes then |
//! | `belief` | the rule by which the product believes a session |
//! | `bare` | a holder that the test itself keeps, and until when each rule believes it |
//! | `stage` | clusters of both releases |
//!
//! What the trials of all backends share is in `lockkeeper-trials`.

mod bare;
#[path = "../../src/session/belief.rs"]
#[expect(dead_code, reason = "the trials need the rule of belief alone")]
mod belief;
mod deaths;
mod leaders;
#[path = "../support/service.rs"]
mod service;
mod stage;
mod standstill;

use std::process::ExitCode;

use libtest_mimic::Trial;
use lockkeeper_conformance::Random;
use lockkeeper_faults::etcd::{Release, availability_of};
use lockkeeper_faults::{Availability, namespaces};
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::suite;

use crate::service::ETCD;

type Test = (&'static str, fn() -> Availability, fn(Random) -> Result<(), String>);

const TESTS: [Test; 6] = [
    ("no_two_hold_when_holders_are_killed", servers, |random| deaths::play(Death::Killed, random)),
    ("no_two_hold_when_holders_are_stopped", servers, |random| deaths::play(Death::Stopped, random)),
    ("no_two_hold_when_holders_are_cut_off", servers, |random| deaths::play(Death::CutOff, random)),
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
    let trial = |(name, needed, play)| -> Trial { suite::of_rounds(env!("CARGO_PKG_NAME"), name, needed, play) };
    suite::run(&ETCD, TESTS.map(trial).into())
}
