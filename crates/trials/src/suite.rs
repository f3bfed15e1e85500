//! The `main` of test binaries that play other processes too.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::{Random, SEED_VARIABLE, crowd, seed};
use lockkeeper_faults::Availability;

use crate::{Service, storm};

/// How many trials of rounds run at once: most of a round's time is a wait for the end of a session.
const TRIALS_AT_ONCE: usize = 2;

/// A trial whose rounds hang on chance: it says how they are played again, and is skipped where it lacks something.
/// `binary` is the package and the test binary, as `cargo test -p` would have them.
pub fn of_rounds(
    binary: &'static str,
    name: impl Into<String>,
    needed: impl FnOnce() -> Availability + Send + 'static,
    play: impl FnOnce(Random) -> Result<(), String> + Send + 'static,
) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        if !needed().or_skip(&name) {
            return Ok(());
        }
        let seed = seed();
        println!("again: {SEED_VARIABLE}={seed} cargo test -p {binary} -- --exact {name}");
        Ok(play(Random::new(seed))?)
    })
}

/// A trial that measures, so that no other one measures at the same time; it is skipped where it lacks something.
pub fn measuring(
    name: impl Into<String>,
    needed: impl FnOnce() -> Availability + Send + 'static,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    static TURN: Mutex<()> = Mutex::new(());
    let name = name.into();
    Trial::test(name.clone(), move || {
        if !needed().or_skip(&name) {
            return Ok(());
        }
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        test()
    })
}

/// Runs trials of rounds, or plays the other process if this is one.
pub fn run(service: &Service, trials: Vec<Trial>) -> ExitCode {
    if let Some(code) = service.play() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs trials of crowds and storms, or plays one of their processes if this is one, whose allocator counts its bytes.
pub fn run_crowds(service: &Service, used_bytes: fn() -> usize, trials: Vec<Trial>) -> ExitCode {
    if let Some(asked) = crowd::asked() {
        return asked.take_part(service.open, used_bytes);
    }
    if let Some(code) = storm::play(service) {
        return code;
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
