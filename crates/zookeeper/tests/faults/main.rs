//! One lock at a time, under faults, on a real ensemble of three: holders that die, stand still or are cut off, and
//! servers that are cut off from their peers with their clients.
//!
//! In each round a rival waits behind a holder. Until when the holder believes itself is compared with when the rival
//! is granted the lock, on one clock; and the rival's token is greater. It is a separate binary, since it has long
//! rounds, and plays the other process too.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `deaths` | holders that are killed, stopped, or cut off |
//! | `cut_off` | a server that is cut off from its peers, and not from its clients |
//! | `bare` | a holder that the test itself keeps, and until when each rule believes it |
//!
//! What the trials of all backends share is in `lockkeeper-trials`.

mod bare;
mod cut_off;
mod deaths;
#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Trial;
use lockkeeper_conformance::Random;
use lockkeeper_faults::{Availability, namespaces, zookeeper};
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::suite;

use crate::service::ZOOKEEPER;

/// The ensembles' tick: short, so that a partition is noticed, and a session expires, within seconds.
const TICK: Duration = Duration::from_millis(500);

type Test = (&'static str, fn() -> Availability, fn(Random) -> Result<(), String>);

const TESTS: [Test; 6] = [
    ("no_two_hold_when_holders_are_killed", zookeeper::availability, |random| deaths::play(Death::Killed, random)),
    ("no_two_hold_when_holders_are_stopped", zookeeper::availability, |random| deaths::play(Death::Stopped, random)),
    ("no_two_hold_when_holders_are_cut_off", zookeeper::availability, |random| deaths::play(Death::CutOff, random)),
    ("a_holder_cut_off_with_its_server_has_ended_before_the_next_is_granted", networks, cut_off::library_never_shared),
    ("rules_that_trust_pings_or_the_last_write_let_two_hold_at_once", networks, cut_off::naive_rules_shared),
    ("the_anchor_lets_no_two_hold_on_the_same_exchanges", networks, cut_off::anchor_never_shared),
];

fn networks() -> Availability {
    zookeeper::availability().and(namespaces::availability)
}

fn main() -> ExitCode {
    let trial = |(name, needed, play)| -> Trial {
        suite::of_rounds(concat!(env!("CARGO_PKG_NAME"), " --test faults"), name, needed, play)
    };
    suite::run(&ZOOKEEPER, TESTS.map(trial).into())
}
