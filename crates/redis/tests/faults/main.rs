//! One lock at a time, under faults: holders that die, stand still or are cut off; a server that is killed, stands
//! still, has its clock moved, loses its data or fills its memory; a replica that is promoted without a grant
//! or without a release.
//!
//! In each round a holder in another process and a rival that waits behind it are clients of one server. Until when the
//! holder believes itself is compared with when the rival is granted the lock, on one clock; and the rival's token is
//! greater. Where a rule is left out, two hold at once, and the same judge must see it. It is a separate binary, since
//! it has long rounds, and plays the other processes too.
//!
//! What the trials of all backends share is in `lockkeeper-trials`.

mod data;
mod promotion;
mod servers;
#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;

use libtest_mimic::Trial;
use lockkeeper_conformance::Random;
use lockkeeper_faults::redis::{Server, availability, clock_availability};
use lockkeeper_faults::{Availability, long};
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Span, rounds, suite};

use crate::servers::Harm;
use crate::service::REDIS;

type Test = (&'static str, fn() -> Availability, fn(Random) -> Result<(), String>);

const TESTS: [Test; 16] = [
    ("no_two_hold_when_holders_are_killed", availability, |random| play_deaths(Death::Killed, DEATHS, random)),
    ("no_two_hold_when_holders_are_stopped", availability, |random| play_deaths(Death::Stopped, DEATHS, random)),
    ("no_two_hold_when_holders_are_cut_off", availability, |random| play_deaths(Death::CutOff, DEATHS, random)),
    ("no_two_hold_plain_locks_when_holders_are_killed", availability, |random| {
        play_deaths(Death::Killed, PLAIN, random)
    }),
    ("no_two_hold_plain_locks_when_holders_are_stopped", availability, |random| {
        play_deaths(Death::Stopped, PLAIN, random)
    }),
    ("no_two_hold_when_the_server_is_killed_and_has_a_log", availability, |random| servers::play(Harm::Killed, random)),
    ("two_hold_when_the_server_is_killed_and_has_no_log", availability, |random| {
        servers::play_planted(Harm::Killed, random)
    }),
    ("no_two_hold_when_the_server_stands_still", availability, |random| servers::play(Harm::StoodStill, random)),
    ("no_two_hold_when_the_clock_jumps_forward", movable_clock, |random| servers::play(Harm::Forward, random)),
    ("no_two_hold_when_the_clock_jumps_back", movable_clock, |random| servers::play(Harm::Back, random)),
    ("two_hold_when_a_clock_jumps_that_is_trusted", movable_clock, |random| {
        servers::play_planted(Harm::Forward, random)
    }),
    ("a_promotion_without_a_grant_ends_the_hold_as_expired", availability, promotion::play),
    (
        "a_promotion_without_a_release_keeps_the_lock_taken_until_its_session_is_over",
        availability,
        promotion::play_releases,
    ),
    ("tokens_grow_over_the_loss_of_all_data", availability, data::play_lost),
    ("a_full_memory_ends_no_hold_and_no_wait_and_refuses_joins", availability, |_| data::play_full()),
    ("a_contender_that_is_evicted_is_told_at_once", availability, data::play_evicted),
];

fn movable_clock() -> Availability {
    availability().and(clock_availability)
}

fn main() -> ExitCode {
    let trial = |(name, needed, play)| -> Trial {
        suite::of_rounds(concat!(env!("CARGO_PKG_NAME"), " --test faults"), name, needed, play)
    };
    suite::run(&REDIS, TESTS.map(trial).into())
}

/// The least session timeout: a round takes little more.
const DEATHS: &str = "session_timeout=2s";

/// The same where the holder has a plain lock too.
const PLAIN: &str = "session_timeout=2s&layout=setnx";

const TIMEOUT_S: Span = 2.0;

/// How long after its holder's death a lock is handed on at the latest, in seconds: the timeout, the time until the
/// rival's next renewal, and half a second. It counts in the long run, beside which nothing else runs.
const HANDED_ON_WITHIN_S: Span = TIMEOUT_S + TIMEOUT_S / 6.0 + 0.5;

/// How many rounds are played on one server at the same time.
const DEATHS_AT_ONCE: u32 = 6;

fn play_deaths(death: Death, settings: &'static str, random: Random) -> Result<(), String> {
    let server = rounds::runtime().block_on(Server::standalone()).expect("a server");
    let servers = [server.address()];
    let tally = rounds::play(death.rounds(), DEATHS_AT_ONCE, random, async |round, mut random| {
        let lock = format!("{death:?}-{}", round % DEATHS_AT_ONCE);
        vec![death.play(&REDIS, &servers, settings, &lock, &mut random).await]
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    if death == Death::Killed && long::is_asked_for() {
        tally.check_handed_on(HANDED_ON_WITHIN_S)?;
    }
    tally.check(death.asked_for())
}
