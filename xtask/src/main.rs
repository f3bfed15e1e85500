//! `cargo xtask`: the commands a contributor and the continuous integration run, the same ones on both.
//!
//! This file only reads the command line. Each command is a module with an options struct and a `run` that answers the
//! exit code; a new one is a module, a variant of [`Task`] and an arm in [`main`]. What is checked of the source tree
//! itself (layers, headings, lengths) lives in `tests/tidy`, as ordinary tests.

mod bench;
mod cargo;
mod dependencies;
mod failures;
mod features;
mod harness;
mod install;
mod lanes;
mod long;
mod oldest;
mod packages;
mod pictures;
mod python;
mod stages;
mod tally;
mod test;

use std::process::ExitCode;

use clap::Parser;

/// Lockkeeper's developer commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Install what tests use; check the format, the lints, the documentation, the dependencies, the features, the
    /// packages and the oldest Rust; then run every test; the last line is the count.
    Test(test::Options),
    /// Measure the performance budgets as ratios in one run.
    Bench(bench::Options),
    /// Take the pictures of the documentation anew, of a staged fleet; as root.
    Pictures,
}

fn main() -> ExitCode {
    match Task::parse() {
        Task::Test(options) => test::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Pictures => pictures::run(),
    }
}
