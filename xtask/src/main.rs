//! `cargo xtask`: the commands a contributor and the continuous integration run, the same ones on both.
//!
//! This file only reads the command line. Each command is a module with an options struct and a `run` that answers the
//! exit code; a new one is a module, a variant of [`Task`] and an arm in [`main`]. What is checked of the source tree
//! itself (layers, headings, lengths) lives in `tests/tidy`, as ordinary tests.

mod bench;
mod binaries;
mod cargo;
mod check;
mod count;
mod dependencies;
mod failures;
mod features;
mod install;
mod oldest;
mod packages;
mod pictures;
mod pool;
mod progress;
mod python;
mod room;
mod stages;
mod tally;
mod test;
mod tiers;

use std::process::ExitCode;

use clap::Parser;

/// Lockkeeper's developer commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Install what tests use, and run the tests; the last line is the count.
    Test(test::Options),
    /// Check the format, the lints, the documentation, the dependencies, the packages and sets of features.
    Check,
    /// Measure the performance budgets as ratios in one run.
    Bench(bench::Options),
    /// Count the lines of Rust, by crate.
    Count,
    /// Take the pictures of the documentation anew, of a staged fleet; as root.
    Pictures,
}

fn main() -> ExitCode {
    match Task::parse() {
        Task::Test(options) => test::run(&options),
        Task::Check => check::run(),
        Task::Bench(options) => bench::run(&options),
        Task::Count => count::run(),
        Task::Pictures => pictures::run(),
    }
}
