//! Runs tests through cargo, one order after the other or in two lanes, and gathers their count and figures.
//!
//! `tally` turns output into numbers; `lanes` and `long` say what is run.

use std::fs;
use std::io::{self, Write};
use std::num::NonZero;
use std::thread;

use tempfile::NamedTempFile;

use crate::cargo::{cargo_command, count, count_into};
use crate::lanes::Lanes;
use crate::tally::Totals;

/// The environment variable that names the file to which tests append `name: reason` when they skip themselves.
const SKIPS_VARIABLE: &str = "LOCKKEEPER_TEST_SKIPS";

/// The environment variable that names the file to which tests append what they measured.
const FIGURES_VARIABLE: &str = "LOCKKEEPER_TEST_FIGURES";

/// The environment variable that asks tests for their long rounds.
const LONG_VARIABLE: &str = "LOCKKEEPER_TEST_LONG";

/// The environment variable by which a test binary knows how many tests to run at a time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// How many tests a binary runs at a time for each core: most of their time they wait for processes and deadlines.
const TESTS_PER_CORE: usize = 2;

/// How far the second lane stands back, as `nice` counts: tests in the first judge time in tens of milliseconds.
const BESIDE_NICENESS: i32 = 10;

/// How many rounds the tests play that have long ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rounds {
    /// A tenth.
    Short,
    /// All.
    Long,
}

/// How tests are run, and what is asked of their outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Harness {
    pub(crate) rounds: Rounds,
    /// Whether a skipped test is a failure.
    pub(crate) requires_all: bool,
}

/// The totals and figures of the tests, over all stages.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) totals: Totals,
    pub(crate) figures: String,
}

/// Where a lane's output goes.
#[derive(Clone, Copy, Debug)]
enum Output {
    /// To ours, as it comes.
    Live,
    /// To ours, once the order has ended.
    AtItsEnd,
}

impl Harness {
    /// Runs both lanes to their end; what they found is added whether or not they failed.
    pub(crate) fn run(self, lanes: &Lanes, found: &mut Found) -> Result<(), String> {
        let (first, beside) = thread::scope(|scope| {
            let beside = scope.spawn(|| {
                // Of this thread alone, and inherited by all that it starts.
                let _ = rustix::process::nice(BESIDE_NICENESS);
                self.run_lane(&lanes.beside, Output::AtItsEnd)
            });
            (self.run_lane(&lanes.first, Output::Live), beside.join().expect("a lane does not panic"))
        });
        let mut failures = Vec::new();
        for (lane, failed) in [first, beside] {
            found.totals.add(lane.totals);
            found.figures.push_str(&lane.figures);
            failures.extend(failed);
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    /// Runs one order after the other; answers what they found, and each failure.
    fn run_lane(self, orders: &[String], output: Output) -> (Found, Vec<String>) {
        let mut found = Found::default();
        let failures = orders.iter().filter_map(|order| self.run_order(order, output, &mut found).err()).collect();
        (found, failures)
    }

    fn run_order(self, order: &str, output: Output, found: &mut Found) -> Result<(), String> {
        let file = || NamedTempFile::new().map_err(|error| format!("no temporary file for what tests write: {error}"));
        let (skips, figures) = (file()?, file()?);
        let mut command = cargo_command(order);
        command.env(SKIPS_VARIABLE, skips.path()).env(FIGURES_VARIABLE, figures.path()).env_remove(LONG_VARIABLE);
        if self.rounds == Rounds::Long {
            command.env(LONG_VARIABLE, "1");
        } else if std::env::var_os(THREADS_VARIABLE).is_none() {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS_VARIABLE, (TESTS_PER_CORE * cores).to_string());
        }
        let (tally, ended) = match output {
            Output::Live => count(command),
            Output::AtItsEnd => {
                let kept = file()?;
                let counted = count_into(command, kept.as_file());
                print(order, &kept)?;
                counted
            }
        };
        let totals = tally.totals(&text(&skips)?);
        let outcome = ended.and_then(|()| self.verdict(&totals));
        found.totals.add(totals);
        found.figures.push_str(&text(&figures)?);
        outcome
    }

    /// The outcome by the count alone, after every harness ended well.
    fn verdict(self, totals: &Totals) -> Result<(), String> {
        if totals.failed > 0 {
            return Err(format!("{} failed", totals.failed));
        }
        if totals.passed == 0 {
            return Err("no test was executed".to_owned());
        }
        if self.requires_all && !totals.skipped.is_empty() {
            return Err(format!("{} skipped, and --require-all allows none", totals.skipped.len()));
        }
        Ok(())
    }
}

fn text(file: &NamedTempFile) -> Result<String, String> {
    let bytes = fs::read(file.path()).map_err(|error| format!("a file that tests write to is gone: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints what an order has printed, in one piece under its heading.
fn print(order: &str, kept: &NamedTempFile) -> Result<(), String> {
    let mut kept = kept.reopen().map_err(|error| format!("the output of cargo {order} is gone: {error}"))?;
    let mut ours = io::stdout().lock();
    // A reader of ours that went away must not stop the tests or the count.
    let _ = writeln!(ours, "\n== the output of cargo {order}");
    let _ = io::copy(&mut kept, &mut ours).and_then(|_| ours.flush());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn verdict(counted: (usize, usize, usize), requires_all: bool) -> Result<(), String> {
        let (passed, failed, ignored) = counted;
        let mut tally = Tally::default();
        tally.read_line(&format!("test result: ok. {passed} passed; {failed} failed; {ignored} ignored; 0 measured"));
        Harness { rounds: Rounds::Short, requires_all }.verdict(&tally.totals(""))
    }

    #[test]
    fn nothing_executed_is_a_failure() {
        assert!(verdict((0, 0, 0), false).is_err());
        assert!(verdict((0, 0, 3), false).is_err());
        assert_eq!(verdict((1, 0, 0), true), Ok(()));
    }

    #[test]
    fn a_skip_is_a_failure_only_when_all_are_required() {
        assert_eq!(verdict((4, 0, 1), false), Ok(()));
        assert!(verdict((4, 0, 1), true).is_err());
    }
}
