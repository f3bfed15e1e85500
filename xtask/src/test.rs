//! `cargo xtask test`: every check of the project, in one run, with one count on the last line.
//!
//! Runs the stages one after the other, lets each fail without stopping those that do not need it, and reports at the
//! end. How output becomes numbers is `tally`'s; what is installed beforehand is `install`'s.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::install::{self, LeftOut, Wish};
use crate::tally::{Tally, Totals};

/// How long the output may stay open after `cargo test` has ended: only a process that outlived its test holds it.
const OUTPUT_DRAIN_MAX: Duration = Duration::from_secs(5);

/// The environment variable that names the file to which tests append `name: reason` when they skip themselves.
const SKIPS_VARIABLE: &str = "LOCKKEEPER_TEST_SKIPS";

/// The environment variable by which cargo and the tests are told of a target directory that is not the usual one.
const TARGET_VARIABLE: &str = "CARGO_TARGET_DIR";

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Install nothing; without it, what tests use and this machine lacks is installed first: system packages as root
    /// with apt-get, Python packages in the target directory.
    #[arg(long)]
    no_install: bool,
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
    stages.run("format", || cargo("fmt --all --check", &[]));
    stages.run("clippy", || cargo("clippy --workspace --all-targets --all-features -- -D warnings", &[]));
    // The libraries' public documentation, as docs.rs shows it: there a link to something private is an error too.
    // Libraries only, since the command's page would land on that of the library of the same name.
    let documentation = "doc --workspace --lib --no-deps --all-features";
    stages.run("documentation", || cargo(documentation, &[("RUSTDOCFLAGS", "-D warnings")]));
    // Tests start these as processes, also across packages, where `cargo test` alone would not build them.
    let built = stages.run("build", || cargo("build --workspace --bins --examples --all-features", &[]));
    let mut totals = Tally::default().totals("");
    if built {
        stages.run("tests", || run_tests(options, &mut totals));
    } else {
        stages.leave_out("tests", "the build failed");
    }
    stages.print();
    print_list("left out of the set-up", left_out.iter().map(|LeftOut { what, why }| (what, why)));
    print_list("skipped", totals.skipped.iter().map(|skip| (&skip.name, &skip.reason)));
    println!("\n{totals}");
    if stages.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what did not happen, and why; nothing if there is nothing.
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
    outcome: Result<(), String>,
}

impl Stages {
    /// Runs one stage and keeps its outcome and time; answers whether it passed.
    #[expect(clippy::disallowed_methods, reason = "times a stage for its reader; nothing is decided by it")]
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<(), String>) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = stage();
        if let Err(why) = &outcome {
            println!("== {name} FAILED: {why}");
        }
        let passed = outcome.is_ok();
        self.0.push(Stage { name, took: start.elapsed(), outcome });
        passed
    }

    /// Notes a stage that could not run, which is a failure.
    fn leave_out(&mut self, name: &'static str, why: &str) {
        self.0.push(Stage { name, took: Duration::ZERO, outcome: Err(format!("not run: {why}")) });
    }

    fn all_passed(&self) -> bool {
        self.0.iter().all(|stage| stage.outcome.is_ok())
    }

    fn print(&self) {
        println!("\nstages:");
        for Stage { name, took, outcome } in &self.0 {
            let outcome = outcome.as_ref().map_or_else(|why| format!("FAILED: {why}"), |()| "ok".to_owned());
            println!("  {name:<14}{:>7.1} s  {outcome}", took.as_secs_f64());
        }
    }
}

/// Runs the tests of the workspace and documentation tests, counting as their output passes through.
fn run_tests(options: &Options, totals: &mut Totals) -> Result<(), String> {
    let skips = tempfile::NamedTempFile::new().map_err(|error| format!("no temporary file for the skips: {error}"))?;
    let mut command = cargo_command("test --workspace --all-features --no-fail-fast");
    command.env(SKIPS_VARIABLE, skips.path());
    let (tally, ended) = stream(command, io::stdout(), OUTPUT_DRAIN_MAX);
    let written_skips = fs::read(skips.path()).map_err(|error| format!("the file of skips is gone: {error}"))?;
    *totals = tally.totals(&String::from_utf8_lossy(&written_skips));
    ended?;
    verdict(totals, options.require_all)
}

/// What the count alone says, after every harness ended well.
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

/// Runs a command, passing its standard output on to `ours` line by line and counting it.
///
/// The count is answered even if the command failed. A command whose output is still open `drain_max` after its end has
/// left a process behind, and that is a failure.
fn stream(mut command: Command, ours: impl Write + Send + 'static, drain_max: Duration) -> (Tally, Result<(), String>) {
    let mut tally = Tally::default();
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (tally, Err(format!("could not be started: {error}"))),
    };
    let output = child.stdout.take().expect("standard output was asked to be piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || pass_on(output, ours, &sender));
    let ended = thread::spawn(move || child.wait());
    let mut leaked = false;
    while !leaked {
        // Looked at before the wait, so that the whole of it lies after the end.
        let finished = ended.is_finished();
        match lines.recv_timeout(drain_max) {
            Ok(line) => tally.read_line(&line),
            Err(RecvTimeoutError::Timeout) => leaked = finished,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let outcome = match ended.join().expect("waiting for a child does not panic") {
        Ok(_) if leaked => Err("a process that a test started outlived it and holds the output open".to_owned()),
        Ok(status) => succeeded(status),
        Err(error) => Err(format!("could not be waited for: {error}")),
    };
    (tally, outcome)
}

/// Copies output to `ours`, and each line of it to the counter.
fn pass_on(output: impl Read, mut ours: impl Write, sender: &mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        // A reader of ours that went away must not stop the tests or the count.
        let _ = ours.write_all(&line).and_then(|()| ours.flush());
        if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Runs cargo to its end, with its output going where ours goes.
fn cargo(arguments: &str, environment: &[(&str, &str)]) -> Result<(), String> {
    let mut command = cargo_command(arguments);
    command.envs(environment.iter().copied());
    command.status().map_err(|error| format!("cargo could not be started: {error}")).and_then(succeeded)
}

/// Cargo at the workspace's root; prints the command, so that it can be repeated alone.
fn cargo_command(arguments: &str) -> Command {
    println!("cargo {arguments}");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split(' ')).current_dir(root());
    if env::var_os(TARGET_VARIABLE).is_some() {
        // Cargo would take it from the root, and each test from the folder of its crate.
        command.env(TARGET_VARIABLE, target_folder());
    }
    command
}

/// The target directory, by its whole path.
fn target_folder() -> PathBuf {
    let named = env::var_os(TARGET_VARIABLE).and_then(|folder| path::absolute(folder).ok());
    named.unwrap_or_else(|| root().join("target"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

fn succeeded(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn count(passed: usize, failed: usize, ignored: usize) -> Totals {
        let mut tally = Tally::default();
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
    fn a_failed_harness_fails_the_stage_and_its_count_is_kept() {
        let script = "echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured'; exit 101";
        let (tally, outcome) = stream(shell(script), io::sink(), OUTPUT_DRAIN_MAX);
        assert_eq!(tally.totals("").to_string(), "2 passed, 1 failed, 0 skipped");
        assert!(outcome.is_err());
    }

    #[test]
    fn a_process_left_behind_with_the_output_open_fails_the_stage_instead_of_hanging_it() {
        let (_, outcome) = stream(shell("sleep 3 2>/dev/null & exit 0"), io::sink(), Duration::from_millis(50));
        assert!(outcome.expect_err("the sleeper holds the output").contains("outlived"));
    }

    #[test]
    fn a_failed_stage_fails_the_run_but_not_the_next_stage() {
        let mut stages = Stages::default();
        assert!(!stages.run("first", || Err("broken".to_owned())));
        assert!(stages.run("second", || Ok(())));
        assert!(!stages.all_passed());
    }
}
