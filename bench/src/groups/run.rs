//! The command beside flock(1), as whole processes: what a script pays for a lock.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::ours::Bench;
use crate::load::Outcome;
use crate::load::{Calls, Stopwatch};
use crate::report::rows::NO_SERVER;
use crate::report::{Group, Plot};

/// How many pairs of commands one round has: a command's time moves by a tenth from one to the next.
const PAIRS: u32 = 40;

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    bench.now("run: beside flock");
    let binary = binary()?;
    let directory = tempfile::tempdir()?;
    let mut ours = Command::new(binary);
    ours.args(["run", "x", "--", "true"]).env("LOCKKEEPER_DIR", directory.path().join("locks"));
    let mut flock = Command::new("flock");
    flock.arg(directory.path().join("x")).arg("true");
    // Makes the files, and fills the caches.
    time(&mut ours)?;
    if let Err(error) = time(&mut flock) {
        bench.record.failed(Group::Run, None, &error.to_string());
        return Ok(());
    }
    let mut commands = [ours, flock];
    for _ in 0..bench.effort.rounds() {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..bench.effort.calls(PAIRS) {
            for number in bench.turns.order::<2>() {
                times[number].push(time(&mut commands[number])?);
            }
        }
        let [ours, flock] = times.map(|times| Calls::of(times).latency);
        let mut shelf = bench.shelf(Group::Run, NO_SERVER);
        shelf.beside("flock", ours.median(), flock.median());
        shelf.latency(Plot::LatencyRun, "lockkeeper run x -- true", &ours);
        shelf.latency(Plot::LatencyRun, "flock x true", &flock);
    }
    Ok(())
}

/// `lockkeeper`, which is built beside this program.
pub(super) fn binary() -> Outcome<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("lockkeeper");
    match binary.is_file() {
        true => Ok(binary),
        false => Err("`lockkeeper` is not beside this program: build it with `cargo build -p lockkeeper-cli`".into()),
    }
}

fn time(command: &mut Command) -> Outcome<Duration> {
    let watch = Stopwatch::start();
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    let took = watch.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?}: {status}").into()) }
}
