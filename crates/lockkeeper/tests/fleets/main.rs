//! Fleets under faults: processes that take a few locks again and again while they, their connections and the server
//! are harmed; and the checker of `lockkeeper-history` over all that each of them recorded.
//!
//! | file | what is there |
//! | --- | --- |
//! | `program` | what one of the processes does, and what it records |
//! | `stays` | what it records of turns that its tasks take |
//! | `fleet` | the processes, the faults, and the judge |
//! | `servers` | a server of each service that can be killed and started again |

mod fleet;
mod program;
mod servers;
mod stays;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use lockkeeper_conformance::Random;
use lockkeeper_trials::suite;

use crate::fleet::Fleet;
use crate::program::Manner;
use crate::servers::{FleetService, SERVICES};

const MANNERS: [(&str, Manner); 2] = [
    ("no_two_processes_of_a_fleet_hold_a_lock_on", Manner::Alone),
    ("turns_of_a_fleet_have_growing_tokens_on", Manner::Turns),
];

fn main() -> ExitCode {
    if program::play() {
        return ExitCode::SUCCESS;
    }
    let trial = |(claim, manner): (&str, Manner), (kind, availability, start): FleetService| -> Trial {
        let play = move |random: Random| Fleet::play(kind, start, manner, random);
        suite::of_rounds("lockkeeper --test fleets", format!("{claim}_{kind}"), availability, play)
    };
    let trials = MANNERS.into_iter().flat_map(|manner| SERVICES.map(|service| trial(manner, service)));
    let mut arguments = Arguments::from_args();
    // A fleet takes the whole machine.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
