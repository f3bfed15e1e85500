//! Runs test binaries, some at a time, and gathers their count and figures: most of their time tests wait, for
//! processes, servers and deadlines. Some programs wait nearly all the time, others keep two cores busy alone, and
//! other work may go on beside the run, so how many run at a time follows from how many processes want a processor.
//!
//! `tally` turns output into numbers, `tiers` says what is run, `binaries` builds it, `progress` shows how far it is.

use std::collections::VecDeque;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::NamedTempFile;

use crate::binaries::Binary;
use crate::cargo::{cargo_command, stream};
use crate::install::LeftOut;
use crate::progress::Progress;
use crate::tally::Totals;
use crate::tiers::Tier;

/// The environment variable that names the file to which tests append `name: reason` when they skip themselves.
const SKIPS_VARIABLE: &str = "LOCKKEEPER_TEST_SKIPS";

/// The environment variable that names the file to which tests append what they measured.
const FIGURES_VARIABLE: &str = "LOCKKEEPER_TEST_FIGURES";

/// The environment variable that asks tests for their long rounds.
const LONG_VARIABLE: &str = "LOCKKEEPER_TEST_LONG";

/// The environment variable by which a test binary knows how many tests to run at a time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// How many tests a binary runs at a time for each core.
const TESTS_PER_CORE: usize = 2;

/// How many binaries run at a time where there is [`Room`]: most wait most of the time.
const BINARIES_AT_ONCE: usize = 6;

/// Starts a program with the default action for every signal. A run in the background inherits ignored ones (`nohup`,
/// a shell's `&`), which the programs under test would rightly leave ignored.
const DEFAULT_SIGNALS: &[&str] = &["env", "--default-signal"];

/// How tests are run, and what is asked of their outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) tier: Tier,
    /// Whether a skipped test is a failure.
    pub(crate) requires_all: bool,
    /// Whether all that a binary prints is shown, and not only its failures.
    pub(crate) is_verbose: bool,
}

/// What is run: a test binary, or what cargo itself has to run.
#[derive(Debug)]
pub(crate) enum Job {
    Binary(Binary),
    /// An order for cargo, under a name.
    Cargo(&'static str, String),
}

/// What a run found, over all stages.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) totals: Totals,
    pub(crate) figures: String,
    /// What the set-up could not install.
    pub(crate) left_out: Vec<LeftOut>,
}

impl Job {
    fn name(&self) -> &str {
        match self {
            Self::Binary(binary) => &binary.name,
            Self::Cargo(name, _) => name,
        }
    }

    fn is_alone(&self) -> bool {
        matches!(self, Self::Binary(binary) if binary.is_alone)
    }

    fn command(&self, before: &[&str]) -> Command {
        match self {
            Self::Binary(binary) => binary.command(before),
            Self::Cargo(_, order) => cargo_command(order),
        }
    }
}

impl Pool {
    /// Runs all to their end, those that must be alone behind the others; what they found is added whether or not they
    /// failed.
    pub(crate) fn run(self, jobs: Vec<Job>, found: &mut Found) -> Result<(), String> {
        let progress = Progress::of_jobs(jobs.len());
        let before = if has_default_signals() { DEFAULT_SIGNALS } else { &[] };
        let (alone, together): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_alone);
        let at_once = if self.tier == Tier::Long { 1 } else { BINARIES_AT_ONCE };
        let failures = Mutex::new(Vec::new());
        let found = Mutex::new(found);
        for (jobs, at_once) in [(together, at_once), (alone, 1)] {
            let (waiting, room) = (Mutex::new(VecDeque::from(jobs)), Room::default());
            let next = |worker: usize| {
                if worker >= AT_LEAST {
                    room.wait(|| !locked(&waiting).is_empty());
                }
                locked(&waiting).pop_front()
            };
            thread::scope(|scope| {
                for worker in 0..at_once {
                    let (next, failures, progress, found) = (&next, &failures, &progress, &found);
                    scope.spawn(move || {
                        while let Some(job) = next(worker) {
                            let outcome = self.run_job(&job, before, progress, found);
                            locked(failures).extend(outcome.err().map(|why| format!("{}: {why}", job.name())));
                        }
                    });
                }
            });
        }
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    #[expect(clippy::disallowed_methods, reason = "times a binary for its reader; nothing is decided by it")]
    fn run_job(self, job: &Job, before: &[&str], progress: &Progress, found: &Mutex<&mut Found>) -> Result<(), String> {
        let file = || NamedTempFile::new().map_err(|error| format!("no temporary file for what tests write: {error}"));
        let (skips, figures, output) = (file()?, file()?, file()?);
        let mut command = job.command(before);
        self.prepare(&mut command, &skips, &figures);
        let begun = Instant::now();
        progress.begins(job.name());
        let shown = output.reopen().map_err(|error| format!("no file for its output: {error}"))?;
        let (tally, ended) = stream(command, shown, |line| {
            if is_news(line) {
                progress.say(&format!("{}: {line}", job.name()));
            }
        });
        let totals = tally.totals(&text(&skips)?);
        let outcome = ended.and_then(|()| self.verdict(&totals));
        self.report(job, begun.elapsed(), &totals, outcome.is_ok(), &text(&output)?, progress);
        let mut found = locked(found);
        found.totals.add(totals);
        found.figures.push_str(&text(&figures)?);
        outcome
    }

    fn prepare(self, command: &mut Command, skips: &NamedTempFile, figures: &NamedTempFile) {
        command.env(SKIPS_VARIABLE, skips.path()).env(FIGURES_VARIABLE, figures.path()).env_remove(LONG_VARIABLE);
        if self.tier == Tier::Long {
            command.env(LONG_VARIABLE, "1");
        } else if std::env::var_os(THREADS_VARIABLE).is_none() {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS_VARIABLE, (TESTS_PER_CORE * cores).to_string());
        }
    }

    fn report(self, job: &Job, took: Duration, totals: &Totals, is_right: bool, output: &str, progress: &Progress) {
        progress.ended(job.name(), took, totals);
        if self.is_verbose {
            progress.say(output);
        } else if !is_right {
            // What passed stands before it.
            progress.say(output.find("\nfailures:\n").map_or(output, |start| &output[start..]));
        }
    }

    /// The outcome by the count alone, after every harness ended well.
    fn verdict(self, totals: &Totals) -> Result<(), String> {
        if totals.failed > 0 {
            return Err(format!("{} failed", totals.failed));
        }
        if self.requires_all && !totals.skipped.is_empty() {
            return Err(format!("{} skipped, and --require-all allows none", totals.skipped.len()));
        }
        Ok(())
    }
}

/// Whether a line of a harness is shown at once: a failure, or a test that takes long.
fn is_news(line: &str) -> bool {
    line.starts_with("test ") && (line.trim_end().ends_with("FAILED") || line.contains(" has been running for over "))
}

/// Whether the program that sets signals to their default is here; the one of GNU knows how, others may not.
fn has_default_signals() -> bool {
    let [program, arguments @ ..] = DEFAULT_SIGNALS else { return false };
    let tried = Command::new(program).args(arguments).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(file: &NamedTempFile) -> Result<String, String> {
    let bytes = fs::read(file.path()).map_err(|error| format!("a file that tests write to is gone: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many test programs go on at a time on the busiest machine: one, and one more while it waits.
const AT_LEAST: usize = 2;

/// How many processes may want a core, for one more program to start. With two, the load rose to 24 on two cores, tests
/// only waited for each other, and the run took no less time.
const RUNNABLE_PER_CORE: usize = 1;

/// How often it is looked, and the pause between: long enough to see what the program did that started last.
const LOOKS: usize = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Lets programs start one after the other, each if there is room for it.
#[derive(Debug, Default)]
struct Room(Mutex<()>);

impl Room {
    /// Waits until there is room, or nothing is left to be started.
    fn wait(&self, is_left: impl Fn() -> bool) {
        let _gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        while is_left() && seen() > RUNNABLE_PER_CORE * cores * LOOKS {}
    }
}

/// The sum of the processes that want a processor, over some looks; zero where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "looks at other processes, whose changes are not announced")]
fn seen() -> usize {
    let look = |_| {
        thread::sleep(LOOK_INTERVAL);
        fs::read_to_string("/proc/stat").ok().and_then(|text| runnable(&text)).unwrap_or(0)
    };
    (0..LOOKS).map(look).sum()
}

/// The processes that want a processor, as the kernel's statistics tell, but for the one that asks.
fn runnable(statistics: &str) -> Option<usize> {
    let line = statistics.lines().find_map(|line| line.strip_prefix("procs_running "))?;
    Some(line.trim().parse::<usize>().ok()?.saturating_sub(1))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_failure_and_a_test_that_takes_long_are_shown_at_once_and_what_passed_is_not() {
        assert!(is_news("test a::b ... FAILED") && is_news("test case    ... FAILED"));
        assert!(is_news("test a has been running for over 60 seconds"));
        assert!(!is_news("test a ... ok") && !is_news("running 3 tests"));
    }

    #[test]
    fn the_processes_that_want_a_processor_are_counted_without_the_one_that_asks() {
        assert_eq!(runnable("cpu 1 2 3\nprocs_running 5\nprocs_blocked 0\n"), Some(4));
        assert_eq!(runnable("cpu 1 2 3\n"), None);
    }

    #[test]
    fn it_does_not_wait_when_nothing_is_left_to_be_started() {
        Room::default().wait(|| false);
    }
}
