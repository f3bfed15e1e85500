//! The stages of a run: each is timed, fails without stopping those behind it, and is reported at the end, with what
//! the tests found.
//!
//! What a stage does is not decided here.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::install::LeftOut;
use crate::pool::Found;

/// The stages run so far, for the report.
#[derive(Debug, Default)]
pub(crate) struct Stages(Vec<Stage>);

#[derive(Debug)]
struct Stage {
    name: &'static str,
    took: Duration,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    /// Could not run on this machine, which is no failure.
    Skipped(String),
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

impl Stages {
    /// Runs one stage and keeps its outcome and time; answers whether it passed.
    #[expect(clippy::disallowed_methods, reason = "times a stage for its reader; nothing is decided by it")]
    pub(crate) fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<(), String>) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = stage().map_or_else(Outcome::Failed, |()| Outcome::Passed);
        let passed = matches!(outcome, Outcome::Passed);
        if !passed {
            println!("== {name} {outcome}");
        }
        self.0.push(Stage { name, took: start.elapsed(), outcome });
        passed
    }

    /// Notes a stage that cannot run on this machine, and why.
    pub(crate) fn skip(&mut self, name: &'static str, why: String) {
        println!("\n== {name} skipped: {why}");
        self.0.push(Stage { name, took: Duration::ZERO, outcome: Outcome::Skipped(why) });
    }

    /// Notes a stage that could not run, which is a failure.
    pub(crate) fn leave_out(&mut self, name: &'static str, why: &str) {
        self.0.push(Stage { name, took: Duration::ZERO, outcome: Outcome::Failed(format!("not run: {why}")) });
    }

    /// Prints the report, whose last line is the count; success only if no stage failed.
    pub(crate) fn finish(&self, found: &Found) -> ExitCode {
        self.print();
        if !found.figures.is_empty() {
            println!("\nfigures:");
            found.figures.lines().for_each(|line| println!("  {line}"));
        }
        print_list("left out of the set-up", found.left_out.iter().map(|LeftOut { what, why }| (what, why)));
        print_list("skipped", found.totals.skipped.iter().map(|skip| (&skip.name, &skip.reason)));
        print!("{}", found.totals.failures);
        println!("\n{}", found.totals);
        if self.none_failed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn none_failed(&self) -> bool {
        !self.0.iter().any(|stage| matches!(stage.outcome, Outcome::Failed(_)))
    }

    fn print(&self) {
        println!("\nstages:");
        for Stage { name, took, outcome } in &self.0 {
            println!("  {name:<14}{:>7.1} s  {outcome}", took.as_secs_f64());
        }
    }
}

/// Prints what did not happen, and why; prints nothing if all happened.
fn print_list<'a>(heading: &str, entries: impl Iterator<Item = (&'a String, &'a String)>) {
    for (index, (what, why)) in entries.enumerate() {
        if index == 0 {
            println!("\n{heading}:");
        }
        println!("  {what}: {why}");
    }
}
