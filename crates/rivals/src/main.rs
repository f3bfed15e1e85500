//! `lockkeeper-rivals`: the same faults against Lockkeeper and other locks, and a table of what came of them.
//!
//! `cargo xtask rivals` builds and runs it. `rivals` are the locks; `stage` has the servers, `fault` what befalls them,
//! `contender` the processes; a `round` is one of each, which `measure` judges; `table` shows all.

mod contender;
mod fault;
mod measure;
mod rivals;
mod round;
mod stage;
mod table;

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use clap::{Parser, ValueEnum};
use lockkeeper_faults::{Error, Result};

use crate::fault::Fault;
use crate::measure::Outcome;
use crate::rivals::own::Part;
use crate::rivals::{Rival, TIMEOUT};
use crate::table::{Cell, Row};

/// The same faults against Lockkeeper and other locks.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Options {
    #[command(subcommand)]
    part: Option<Part>,
    /// How many rounds of each; the table has the medians.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only the locks whose names have one of these texts in them.
    #[arg(long)]
    lock: Vec<String>,
    /// Only these faults.
    #[arg(long)]
    fault: Vec<Fault>,
}

/// How many rounds are played at once: most of a round's time is a wait for the end of a session.
const ROUNDS_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.part {
        Some(part) => part.play().map(|()| true),
        None => Ok(compare(&options)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lockkeeper-rivals: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays all rounds and prints the table; answers whether all could be played and Lockkeeper kept what it promises.
fn compare(options: &Options) -> bool {
    let is_wanted =
        |rival: &&Rival| options.lock.is_empty() || options.lock.iter().any(|text| rival.name.contains(text));
    let locks: Vec<&Rival> = rivals::ALL.iter().filter(is_wanted).collect();
    let faults = match options.fault.is_empty() {
        true => Fault::value_variants(),
        false => &options.fault,
    };
    let begun = contender::now();
    let (rows, failures) = play(&locks, faults, options.rounds);
    println!("{}", table::markdown(&rows, faults));
    let (timeout_s, minutes) = (TIMEOUT.as_secs(), contender::now().saturating_duration_since(begun).as_secs() / 60);
    println!(
        "Session timeouts, leases and times to live: {timeout_s} s. Medians of rounds: {}, in {minutes} minutes.",
        options.rounds
    );
    let breaches = table::breaches(&rows);
    for wrong in failures.iter().chain(&breaches) {
        eprintln!("{wrong}");
    }
    failures.is_empty() && breaches.is_empty()
}

/// A round to play: the place of its lock among the rows, and the fault.
type Job = (usize, Fault);

/// Plays all rounds; returns the rows of the table, and what could not be played, and why.
fn play<'a>(locks: &[&'a Rival], faults: &[Fault], rounds: u32) -> (Vec<(&'a Rival, Row)>, Vec<String>) {
    let mut rows: Vec<(&Rival, Row)> = locks.iter().map(|rival| (*rival, Row::new())).collect();
    let mut jobs: Vec<Job> = Vec::new();
    for (index, (rival, row)) in rows.iter_mut().enumerate() {
        for &fault in faults {
            let why = rival.cannot_stage(fault);
            jobs.extend((0..rounds).filter(|_| why.is_none()).map(|_| (index, fault)));
            row.insert(fault, why.map_or_else(|| Cell::Played(Vec::new()), Cell::NotStaged));
        }
    }
    let (jobs, played) = (Mutex::new(jobs.into_iter()), Mutex::new(Vec::new()));
    let next = || jobs.lock().expect("no round panics").next();
    thread::scope(|scope| {
        for _ in 0..ROUNDS_AT_ONCE {
            scope.spawn(|| {
                while let Some((index, fault)) = next() {
                    let outcome = play_one(locks[index], fault);
                    played.lock().expect("no round panics").push((index, fault, outcome));
                }
            });
        }
    });
    let mut failures = Vec::new();
    for (index, fault, outcome) in played.into_inner().expect("no round panics") {
        let (rival, row) = &mut rows[index];
        match (outcome, row.get_mut(&fault)) {
            (Ok(outcome), Some(Cell::Played(outcomes))) => outcomes.push(outcome),
            (Err(error), _) => failures.push(format!("{}, {fault}: {error}", rival.name)),
            _ => {}
        }
    }
    (rows, failures)
}

/// Plays one round, and tells of it: a run takes minutes.
fn play_one(rival: &Rival, fault: Fault) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let played = runtime.map_err(Error::io("a runtime"))?.block_on(round::play(rival, fault));
    if let Ok(outcome) = &played {
        eprintln!("{}, {fault}: {outcome:?}", rival.name);
    }
    played
}
