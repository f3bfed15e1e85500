//! Runs cargo: alone, for what it prints, or with its tests counted as their output passes through.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{self, Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cargo_metadata::{Metadata, MetadataCommand};

use crate::tally::Tally;

/// How long the output may stay open after `cargo test` has ended: only a process that outlived its test holds it.
const OUTPUT_DRAIN_MAX: Duration = Duration::from_secs(5);

/// The environment variable that tells cargo and the tests of a target directory that is not the usual one.
const TARGET_VARIABLE: &str = "CARGO_TARGET_DIR";

/// The beginnings of the variables in which cargo describes the crate that it runs.
const OF_CRATE: &[&[u8]] = &[b"CARGO_MANIFEST_", b"CARGO_PKG_"];

/// The platform whose dependencies are read; the crates for others are never built, and not downloaded for this.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Runs cargo to its end; its output goes where ours goes.
pub(crate) fn cargo(arguments: &str, environment: &[(&str, &str)]) -> Result<(), String> {
    let mut command = cargo_command(arguments);
    command.envs(environment.iter().copied());
    command.status().map_err(|error| format!("cargo could not be started: {error}")).and_then(succeeded)
}

/// Runs cargo to its end and answers its standard output.
pub(crate) fn cargo_output(arguments: &str) -> Result<String, String> {
    let output = cargo_command(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    succeeded(output.status)?;
    String::from_utf8(output.stdout).map_err(|error| format!("cargo did not print text: {error}"))
}

/// The workspace's packages and all that they depend on where Lockkeeper runs.
pub(crate) fn metadata() -> Result<Metadata, String> {
    let printed = cargo_output(&format!("metadata --format-version 1 --all-features --filter-platform {PLATFORM}"))?;
    MetadataCommand::parse(printed).map_err(|error| format!("cargo metadata: {error}"))
}

/// Cargo at the workspace's root; prints the command, so that it can be repeated alone.
pub(crate) fn cargo_command(arguments: &str) -> Command {
    println!("cargo {arguments}");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments.split(' '));
    at_root(command)
}

/// A command that is cargo, or runs it, at the workspace's root.
pub(crate) fn at_root(mut command: Command) -> Command {
    command.current_dir(root());
    // What cargo says to us of our own crate. Build scripts of others would take it for a change, and compile again.
    let ours =
        env::vars_os().filter(|(name, _)| OF_CRATE.iter().any(|start| name.as_encoded_bytes().starts_with(start)));
    ours.for_each(|(name, _)| {
        command.env_remove(name);
    });
    if env::var_os(TARGET_VARIABLE).is_some() {
        // Cargo would take it from the root, and each test from the folder of its crate.
        command.env(TARGET_VARIABLE, target_folder());
    }
    command
}

/// The target directory, by its whole path.
pub(crate) fn target_folder() -> PathBuf {
    let named = env::var_os(TARGET_VARIABLE).and_then(|folder| path::absolute(folder).ok());
    named.unwrap_or_else(|| root().join("target"))
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

pub(crate) fn succeeded(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// Runs a command whose output and errors go into the file, and counts the tests in it. Each line of its standard
/// output is shown to `look` when it comes.
///
/// The count is answered even if the command failed. A command whose output is still open some time after its end
/// has left a process behind, and that is a failure.
pub(crate) fn stream(command: Command, file: File, look: impl FnMut(&str)) -> (Tally, Result<(), String>) {
    stream_for(command, file, look, OUTPUT_DRAIN_MAX)
}

fn stream_for(
    mut command: Command,
    file: File,
    mut look: impl FnMut(&str),
    drain_max: Duration,
) -> (Tally, Result<(), String>) {
    match file.try_clone() {
        Ok(errors) => command.stderr(errors),
        Err(error) => return (Tally::default(), Err(format!("no file for its output: {error}"))),
    };
    let mut tally = Tally::default();
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (tally, Err(format!("could not be started: {error}"))),
    };
    let output = child.stdout.take().expect("standard output was asked to be piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || pass_on(output, file, &sender));
    let ended = thread::spawn(move || child.wait());
    let mut leaked = false;
    while !leaked {
        // Read before the wait, so that the whole wait lies after the end.
        let finished = ended.is_finished();
        match lines.recv_timeout(drain_max) {
            Ok(line) => {
                tally.read_line(&line);
                look(&line);
            }
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

/// Copies output to the file, and each line of it to the counter.
fn pass_on(output: impl Read, mut file: File, sender: &mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        // A disk that is full must not stop the tests or the count.
        let _ = file.write_all(&line);
        if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failed_harness_fails_the_stage_and_its_count_is_kept() {
        let script = "echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured'; exit 101";
        let (tally, outcome) = stream(shell(script), tempfile::tempfile().expect("a file"), |_| ());
        assert_eq!(tally.totals("").to_string(), "2 passed, 1 failed, 0 skipped");
        assert!(outcome.is_err());
    }

    #[test]
    fn a_process_left_behind_with_the_output_open_fails_the_stage_instead_of_hanging_it() {
        let file = tempfile::tempfile().expect("a file");
        let command = shell("sleep 3 2>/dev/null & exit 0");
        let (_, outcome) = stream_for(command, file, |_| (), Duration::from_millis(50));
        assert!(outcome.expect_err("the sleeper holds the output").contains("outlived"));
    }
}
