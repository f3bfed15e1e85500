//! `cargo xtask test`: every check of the project, or the long rounds alone, in one run, with one count on the last
//! line.
//!
//! Runs the stages one after the other, lets each fail without stopping those that do not need it, and reports at the
//! end. `tally` turns output into numbers, `install` installs what is missing, `long` knows which tests have long
//! rounds; `dependencies`, `features`, `packages` and `oldest` are a stage each.

use std::fmt;
use std::fs;
use std::num::NonZero;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cargo_metadata::Metadata;
use clap::Args;
use tempfile::NamedTempFile;

use crate::cargo::{cargo, cargo_command, count, metadata, target_folder};
use crate::install::{self, LeftOut, Wish};
use crate::tally::Totals;
use crate::{dependencies, features, long, oldest, packages};

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

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Install nothing; without it, what tests use and this machine lacks is installed first: system packages as root
    /// with apt-get, Python packages in the target directory.
    #[arg(long)]
    no_install: bool,
    /// Run the tests that have long rounds, with all their rounds, and nothing else; without it, they play a tenth.
    #[arg(long)]
    long: bool,
    /// Make a skipped test a failure.
    #[arg(long)]
    require_all: bool,
}

/// Runs all stages and prints the report; success only if no stage failed.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut stages = Stages::default();
    let wish = if options.no_install { Wish::LookOnly } else { Wish::Install };
    let mut left_out = Vec::new();
    stages.run("set-up", || {
        left_out = install::set_up(wish, &target_folder().join("lockkeeper-python"));
        Ok(())
    });
    let workspace = metadata();
    if !options.long {
        check_sources(&mut stages, workspace.as_ref());
    }
    // Tests start these as processes, also across packages, where `cargo test` alone would not build them.
    let built = stages.run("build", || cargo("build --workspace --bins --examples --all-features", &[]));
    let mut found = Found::default();
    for (name, tests) in test_stages(options.long, workspace.as_ref()) {
        if built {
            stages.run(name, || {
                let failures: Vec<String> =
                    tests.iter().filter_map(|tests| run_tests(tests, options, &mut found).err()).collect();
                if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
            });
        } else {
            stages.leave_out(name, "the build failed");
        }
    }
    stages.print();
    if !found.figures.is_empty() {
        println!("\nfigures:");
        found.figures.lines().for_each(|line| println!("  {line}"));
    }
    print_list("left out of the set-up", left_out.iter().map(|LeftOut { what, why }| (what, why)));
    print_list("skipped", found.totals.skipped.iter().map(|skip| (&skip.name, &skip.reason)));
    println!("\n{}", found.totals);
    if stages.none_failed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The checks of the sources that run no code of theirs.
fn check_sources(stages: &mut Stages, workspace: Result<&Metadata, &String>) {
    stages.run("format", || cargo("fmt --all --check", &[]));
    stages.run("clippy", || cargo("clippy --workspace --all-targets --all-features -- -D warnings", &[]));
    // The libraries' public documentation, as docs.rs shows it: there a link to something private is an error too.
    // Libraries only, since the command's page would overwrite that of the library of the same name.
    let documentation = "doc --workspace --lib --no-deps --all-features";
    stages.run("documentation", || cargo(documentation, &[("RUSTDOCFLAGS", "-D warnings")]));
    stages.run("dependencies", || dependencies::check(workspace.map_err(String::clone)?));
    stages.run("packages", || packages::check(workspace.map_err(String::clone)?));
    stages.run("features", || features::check(workspace.map_err(String::clone)?));
    if oldest::is_installed() {
        stages.run("oldest Rust", oldest::check);
    } else {
        stages.skip("oldest Rust", oldest::missing());
    }
}

/// The stages that run tests, each with what it asks of cargo, one after the other.
fn test_stages(is_long: bool, workspace: Result<&Metadata, &String>) -> Vec<(&'static str, Vec<String>)> {
    // Always the whole workspace, so that each crate is built once, with the features of all.
    let tests = "test --workspace --all-features --no-fail-fast";
    if !is_long {
        // Where cargo could not tell of the workspace, the stages before have failed.
        let few = workspace.map(features::tests).unwrap_or_default();
        return vec![("tests", vec![tests.to_owned()]), ("feature tests", few)];
    }
    // Not captured, so that their progress can be seen.
    long::TESTS.iter().map(|test| (test.name, vec![format!("{tests} --test {} -- --nocapture", test.name)])).collect()
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

/// The stages run so far, for the report.
#[derive(Debug, Default)]
struct Stages(Vec<Stage>);

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
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<(), String>) -> bool {
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
    fn skip(&mut self, name: &'static str, why: String) {
        println!("\n== {name} skipped: {why}");
        self.0.push(Stage { name, took: Duration::ZERO, outcome: Outcome::Skipped(why) });
    }

    /// Notes a stage that could not run, which is a failure.
    fn leave_out(&mut self, name: &'static str, why: &str) {
        self.0.push(Stage { name, took: Duration::ZERO, outcome: Outcome::Failed(format!("not run: {why}")) });
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

/// The totals and figures of the tests, over all stages.
#[derive(Debug, Default)]
struct Found {
    totals: Totals,
    figures: String,
}

/// Runs tests, counting as their output passes through.
fn run_tests(tests: &str, options: &Options, found: &mut Found) -> Result<(), String> {
    let file = || NamedTempFile::new().map_err(|error| format!("no temporary file for what tests write: {error}"));
    let (skips, figures) = (file()?, file()?);
    let mut command = cargo_command(tests);
    command.env(SKIPS_VARIABLE, skips.path()).env(FIGURES_VARIABLE, figures.path()).env_remove(LONG_VARIABLE);
    if options.long {
        command.env(LONG_VARIABLE, "1");
    } else if std::env::var_os(THREADS_VARIABLE).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS_VARIABLE, (TESTS_PER_CORE * cores).to_string());
    }
    let (tally, ended) = count(command);
    let written = |file: &NamedTempFile| {
        let bytes = fs::read(file.path()).map_err(|error| format!("a file that tests write to is gone: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let totals = tally.totals(&written(&skips)?);
    let outcome = ended.and_then(|()| verdict(&totals, options.require_all));
    found.totals.add(totals);
    found.figures.push_str(&written(&figures)?);
    outcome
}

/// The outcome by the count alone, after every harness ended well.
fn verdict(totals: &Totals, require_all: bool) -> Result<(), String> {
    if totals.failed > 0 {
        return Err(format!("{} failed", totals.failed));
    }
    if totals.passed == 0 {
        return Err("no test was executed".to_owned());
    }
    if require_all && !totals.skipped.is_empty() {
        return Err(format!("{} skipped, and --require-all allows none", totals.skipped.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: usize, failed: usize, ignored: usize) -> Totals {
        let mut tally = crate::tally::Tally::default();
        tally.read_line(&format!("test result: ok. {passed} passed; {failed} failed; {ignored} ignored; 0 measured"));
        tally.totals("")
    }

    #[test]
    fn nothing_executed_is_a_failure() {
        assert!(verdict(&count(0, 0, 0), false).is_err());
        assert!(verdict(&count(0, 0, 3), false).is_err());
        assert_eq!(verdict(&count(1, 0, 0), true), Ok(()));
    }

    #[test]
    fn a_skip_is_a_failure_only_when_all_are_required() {
        assert_eq!(verdict(&count(4, 0, 1), false), Ok(()));
        assert!(verdict(&count(4, 0, 1), true).is_err());
    }

    #[test]
    fn a_failed_stage_fails_the_run_but_not_the_next_stage() {
        let mut stages = Stages::default();
        assert!(!stages.run("first", || Err("broken".to_owned())));
        assert!(stages.run("second", || Ok(())));
        assert!(!stages.none_failed());
    }

    #[test]
    fn a_stage_that_this_machine_cannot_run_fails_no_run() {
        let mut stages = Stages::default();
        stages.skip("first", "no such toolchain".to_owned());
        assert!(stages.none_failed());
    }

    #[test]
    fn a_stage_that_this_machine_cannot_run_is_told_with_the_reason() {
        let mut stages = Stages::default();
        stages.skip("first", "no such toolchain".to_owned());
        assert_eq!(stages.0[0].outcome.to_string(), "skipped: no such toolchain");
    }
}
