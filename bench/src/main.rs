//! The benchmark: ours beside other locks, interleaved in one run.
//!
//! `cargo xtask bench` builds and runs it. This file reads the command line and goes through the groups; `groups`
//! measure, `peers` are what ours is compared with, `load` is what both are put under and what it has shown, `report`
//! has the rows with their budgets and shows them.

mod groups;
mod load;
mod peers;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::groups::Bench;
use crate::load::{Effort, Failed, Outcome, SEED};
use crate::report::{Group, Verdict};

/// Ours beside other locks.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// What to measure; everything if nothing is named.
    groups: Vec<Group>,
    /// One short round of each, to see that it works; its figures are not judged.
    #[arg(long)]
    quick: bool,
    /// Write the rows to this file: an array of what, server, ours, peer_name, peer, ratio, budget, met, and more.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the plots as SVG into this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// What this program starts itself for.
#[derive(Debug, Subcommand)]
enum Part {
    /// Be the server that is measured.
    #[command(hide = true)]
    Serve { directory: PathBuf },
    /// Be one of the processes that contend for a lock.
    #[command(hide = true)]
    Contend { url: String, name: String, tasks: usize, millis: u64 },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.part {
        Some(Part::Serve { directory }) => groups::serve(directory).map(|()| true),
        Some(Part::Contend { url, name, tasks, millis }) => {
            groups::contend(url, name, *tasks, Duration::from_millis(*millis)).map(|()| true)
        }
        None => measure(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lockkeeper-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and reports; answers whether the run was as it should be.
fn measure(options: &Options) -> Outcome<bool> {
    let is_wanted = |group: &Group| options.groups.is_empty() || options.groups.contains(group);
    let groups: Vec<Group> = Group::value_variants().iter().copied().filter(is_wanted).collect();
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let mut bench = Bench::new(effort, &groups);
    for group in &groups {
        if let Err(error) = groups::measure(*group, &mut bench) {
            bench.record.failed(*group, None, &error.to_string());
        }
    }
    let record = bench.record;
    record.finish();
    let verdicts = report::judge(&record, &groups);
    report::print_table(&verdicts);
    println!("those that are compared took turns, in an order shuffled with the seed {SEED}");
    if let Some(file) = &options.json {
        report::write_json(file, &verdicts).map_err(|error| cannot_write(file, &error))?;
    }
    if let Some(folder) = &options.plots {
        report::draw(&record.sketches, folder).map_err(|error| cannot_write(folder, &error))?;
    }
    Ok(verdicts.iter().all(|verdict| is_as_it_should_be(verdict, effort)))
}

/// A quick run measures everything that can be measured, and judges nothing.
fn is_as_it_should_be(verdict: &Verdict, effort: Effort) -> bool {
    match effort {
        Effort::Full => verdict.is_met,
        Effort::Quick => verdict.missing.is_none(),
    }
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> Failed {
    format!("{} cannot be written: {error}", path.display()).into()
}
