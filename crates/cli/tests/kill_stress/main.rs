//! Processes of `lockkeeper run` on files, killed, stopped and continued at random, for two minutes or twenty.
//!
//! Eight runs at a time want one of two locks. A separate witness judges them: the command under the lock takes the
//! kernel's lock on a log (`flock`) without waiting, and notes its token there. The kernel gives that lock back when
//! the process is gone, however it ends, and keeps it for one that is stopped, so the witness knows exactly the
//! processes that there are. Where a command has a relative, both keep the witness's lock: the relative must be gone
//! too.
//!
//! Which process is struck, how and when follows from one seed, which is printed. In `cargo xtask test --long` it takes
//! twenty minutes.

mod command;
mod judge;
mod plan;
mod run;
mod stress;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_faults::process;

/// What one test does; the error says what is wrong.
type Test = fn() -> Result<(), String>;

fn main() -> ExitCode {
    if let Some(ended) = command::live_as_one() {
        return ended;
    }
    let tests: [(&str, Test); 3] = [
        ("no_two_hold_and_tokens_grow_while_processes_are_killed_stopped_and_continued", stress::play),
        ("the_witness_sees_two_at_once_a_relative_and_a_token_that_does_not_grow", judge::sees_what_is_planted),
        ("what_is_left_of_a_run_is_a_fault_once_its_lock_is_free", stress::sees_what_is_left),
    ];
    let trials = tests.map(|(name, test)| Trial::test(name, move || judged(name, test)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn judged(name: &str, test: Test) -> Result<(), Failed> {
    if !process::availability().or_skip(name) {
        return Ok(());
    }
    Ok(test()?)
}
