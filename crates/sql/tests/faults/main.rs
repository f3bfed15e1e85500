//! One lock at a time, under faults: holders that die, stand still or are cut off; a server that is killed, stands
//! still, or has its clock moved; a standby that is promoted without a grant. On PostgreSQL and on MariaDB.
//!
//! In each round a holder in another process and a rival that waits behind it are clients of one server. Until when the
//! holder believes itself is compared with when the rival is granted the lock, on one clock; and the rival's token is
//! greater. It is a separate binary, since it has long rounds, and plays the other processes too.
//!
//! | file | what is claimed there |
//! | --- | --- |
//! | `deaths` | holders that are killed, stopped, or cut off |
//! | `servers` | a server that is killed, stands still, or whose clock jumps |
//! | `cuts` | connections that the server ends at each statement |
//! | `interruptions` | statements that an operator ends |
//! | `turns` | tasks that take turns at locks, and account for it |
//! | `stuck` | a row that another program's transaction holds |
//! | `promotion` | a standby that is promoted without a grant |
//! | `restores` | older data that know nothing of a holder, nor of its timeout |
//! | `harm` | servers of either kind, and the harm that is done to them |
//!
//! What the trials of all backends share is in `lockkeeper-trials`.

mod cuts;
#[path = "../support/database.rs"]
mod database;
mod deaths;
mod harm;
mod interruptions;
#[path = "../support/operator.rs"]
mod operator;
mod promotion;
mod restores;
mod servers;
#[path = "../support/service.rs"]
mod service;
mod stuck;
mod turns;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::{Random, SEED_VARIABLE, seed};
use lockkeeper_faults::Availability;
use lockkeeper_trials::deaths::Death;

use crate::operator::Kind;
use crate::restores::{Older, Way};
use crate::servers::Harm;

/// How many tests run at once: most of a round's time is a wait for the end of a session.
const TESTS_AT_ONCE: usize = 2;

type Test = (&'static str, fn(Kind) -> Availability, fn(Kind, Random) -> Result<(), String>);

const TESTS: [Test; 16] = [
    ("no_two_hold_when_holders_are_killed", Kind::availability, |kind, random| {
        deaths::play(kind, Death::Killed, random)
    }),
    ("a_killed_holder_gives_way_to_calls_that_do_not_wait", Kind::availability, deaths::try_behind_the_dead),
    ("no_two_hold_when_holders_are_stopped", Kind::availability, |kind, random| {
        deaths::play(kind, Death::Stopped, random)
    }),
    ("no_two_hold_when_holders_are_cut_off", Kind::availability, |kind, random| {
        deaths::play(kind, Death::CutOff, random)
    }),
    ("no_two_hold_when_the_server_is_killed_and_started_again", Kind::availability, |kind, random| {
        servers::play(kind, Harm::Restarted, random)
    }),
    ("no_two_hold_when_the_server_stands_still", Kind::availability, |kind, random| {
        servers::play(kind, Harm::StoodStill, random)
    }),
    ("no_two_hold_when_the_clock_jumps_forward", Kind::clock_availability, |kind, random| {
        servers::play(kind, Harm::Forward, random)
    }),
    ("no_two_hold_when_the_clock_jumps_back", Kind::clock_availability, |kind, random| {
        servers::play(kind, Harm::Back, random)
    }),
    ("no_two_hold_when_a_standby_is_promoted_without_a_grant", Kind::availability, promotion::play),
    ("no_two_hold_when_a_copy_is_put_back_that_lacks_the_longest_timeout", Kind::availability, |kind, random| {
        restores::play(kind, Older::PutBack, Way::Direct, random)
    }),
    ("no_two_hold_when_a_standby_is_promoted_that_lacks_the_longest_timeout", Kind::availability, |kind, random| {
        restores::play(kind, Older::Promoted, Way::Direct, random)
    }),
    ("no_two_hold_when_a_copy_is_put_back_behind_a_pooler", Kind::pooler_availability, |kind, random| {
        restores::play(kind, Older::PutBack, Way::Pooled, random)
    }),
    ("no_two_hold_when_a_standby_is_promoted_behind_a_pooler", Kind::pooler_availability, |kind, random| {
        restores::play(kind, Older::Promoted, Way::Pooled, random)
    }),
    ("a_hold_stands_while_another_programs_transaction_holds_a_row", Kind::availability, stuck::play),
    ("no_two_hold_when_connections_are_ended_at_each_statement", Kind::availability, cuts::play),
    ("nothing_is_lost_or_left_when_statements_are_interrupted", Kind::availability, interruptions::play),
];

/// MariaDB has one process alone.
const OF_POSTGRES: [Test; 1] =
    [("no_two_hold_when_a_process_of_the_server_is_killed", Kind::availability, |kind, random| {
        servers::play(kind, Harm::Recovered, random)
    })];

fn main() -> ExitCode {
    // The URL says which kind it is of.
    if let Some(code) = Kind::Postgres.service().play() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TESTS_AT_ONCE);
    let of_both = [Kind::Postgres, Kind::Mariadb].into_iter().flat_map(|kind| TESTS.map(|test| (kind, test)));
    let all = of_both.chain(OF_POSTGRES.map(|test| (Kind::Postgres, test)));
    let trials = all.map(|(kind, test)| {
        let name = format!("{}::{}", format!("{kind:?}").to_lowercase(), test.0);
        Trial::test(name.clone(), move || played(&name, kind, test))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn played(name: &str, kind: Kind, (_, needed, play): Test) -> Result<(), Failed> {
    if !needed(kind).or_skip(name) {
        return Ok(());
    }
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed} cargo test -p lockkeeper-sql --test faults -- --exact {name}");
    Ok(play(kind, Random::new(seed))?)
}
