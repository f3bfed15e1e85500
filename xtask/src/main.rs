//! `cargo xtask`: the commands a contributor and the continuous integration run, the same ones on both.
//!
//! This file only reads the command line. A new command is a module, a variant of [`Task`] and an arm in [`main`]. What
//! is checked of the source tree itself (layers, headings, lengths) lives in `tests/tidy`, as ordinary tests.

mod binaries;
mod cargo;
mod check;
mod count;
mod debian;
mod dependencies;
mod docs;
mod features;
mod glibc;
mod install;
mod links;
mod oldest;
mod packages;
mod pool;
mod programs;
mod progress;
mod python;
mod release;
mod report;
mod stages;
mod staging;
mod systems;
mod tally;
mod tarball;
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
    /// Check the format, the lints, the documentation, dependencies, packages, sets of features and other systems.
    Check,
    /// Measure the performance budgets as ratios in one run.
    Bench(programs::BenchOptions),
    /// Run seeds of the simulation: `seed 4711` to repeat one, `seeds 1000000` for many.
    Simulate(programs::SimulateOptions),
    /// Put Lockkeeper and other locks through the same faults, and print what came of it as a table.
    Rivals(programs::RivalsOptions),
    /// Count the lines of Rust, by crate.
    Count,
    /// Take the pictures of the documentation anew, of a staged fleet; as root.
    Pictures,
    /// Make a site of the pages, by mdBook, which is installed below `target`; check all links.
    Docs,
    /// Make what a release uploads: packages, the command as a tarball and for Debian, its notes and check sums.
    Release(release::Options),
}

fn main() -> ExitCode {
    match Task::parse() {
        Task::Test(options) => test::run(&options),
        Task::Check => check::run(),
        Task::Bench(options) => exit_code("bench", programs::bench(&options)),
        Task::Simulate(options) => exit_code("simulate", programs::simulate(&options)),
        Task::Rivals(options) => exit_code("rivals", programs::rivals(&options)),
        Task::Count => exit_code("count", count::run()),
        Task::Pictures => exit_code("pictures", programs::pictures()),
        Task::Docs => exit_code("docs", docs::run()),
        Task::Release(options) => exit_code("release", release::run(&options)),
    }
}

fn exit_code(task: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{task}: {why}");
            ExitCode::FAILURE
        }
    }
}
