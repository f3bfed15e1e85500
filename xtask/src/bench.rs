//! `cargo xtask bench`: the performance budgets, as ratios taken in one run on one machine.
//!
//! Whole commands are timed from outside, in turn with what they are compared with, so that a machine whose speed
//! drifts does not favour one of them. What is timed within a process is an example of its crate.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::cargo::target_folder;

/// How many pairs of whole commands are timed: the median of 200 moves by a few percent from run to run.
const PAIRS: usize = 200;

/// Pairs that are run first and not counted.
const WARM_UP_PAIRS: usize = 10;

/// `lockkeeper run x -- true` may take this many times what `flock x true` takes.
const RUN_BUDGET: f64 = 2.0;

/// Options of `cargo xtask bench`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What to measure; everything if nothing is named.
    what: Vec<What>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum What {
    /// The command against flock(1), as whole processes.
    Run,
    /// The library on files against the bare system calls.
    File,
    /// The embedded server against Apache ZooKeeper standalone.
    Server,
    /// An uncontended lock on ZooKeeper beside a bare socket and beside Curator.
    Lock,
    /// An uncontended lock on etcd beside the calls of `clientv3/concurrency` and of `etcdctl lock`.
    Etcd,
    /// A lock on Redis beside `SET NX PX` and the crate `rslock`, alone and in a crowd.
    Redis,
    /// A lock on PostgreSQL and MariaDB beside ShedLock's statements, and beside a lock that asks every 100 ms.
    Sql,
}

/// Measures, prints, and fails if a budget is not met.
pub(crate) fn run(options: &Options) -> ExitCode {
    let wanted = |what| options.what.is_empty() || options.what.contains(&what);
    let mut code = ExitCode::SUCCESS;
    for what in What::value_variants().iter().filter(|what| wanted(**what)) {
        let outcome = match what {
            What::Run => bench_run(),
            What::File => run_example("lockkeeper-file", "bare_calls"),
            What::Server => run_example("lockkeeper-zk-server", "server_load"),
            What::Lock => run_example("lockkeeper-zookeeper", "lock_speed"),
            What::Etcd => run_example("lockkeeper-etcd", "etcd_lock_speed"),
            What::Redis => run_example("lockkeeper-redis", "redis_lock_speed"),
            What::Sql => run_example("lockkeeper-sql", "sql_lock_speed"),
        };
        if let Err(why) = outcome {
            eprintln!("bench: {why}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn bench_run() -> Result<(), String> {
    let binary = build_release()?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut ours = Command::new(binary);
    ours.args(["run", "x", "--", "true"]).env("LOCKKEEPER_DIR", directory.path().join("locks"));
    let mut flock = Command::new("flock");
    flock.arg(directory.path().join("x")).arg("true");
    let (mut ours_times, mut flock_times) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP_PAIRS + PAIRS {
        let (ours_time, flock_time) = (time(&mut ours)?, time(&mut flock)?);
        if round >= WARM_UP_PAIRS {
            ours_times.push(ours_time);
            flock_times.push(flock_time);
        }
    }
    let (ours, flock) = (median(ours_times), median(flock_times));
    let ratio = ours.as_secs_f64() / flock.as_secs_f64();
    println!("whole processes, median of {PAIRS} pairs:");
    println!("  lockkeeper run x -- true  {:>7.2} ms", ours.as_secs_f64() * 1e3);
    println!("  flock x true              {:>7.2} ms", flock.as_secs_f64() * 1e3);
    println!("  ratio                     {ratio:>7.2}    (budget {RUN_BUDGET:.2})");
    if ratio <= RUN_BUDGET { Ok(()) } else { Err(format!("run takes {ratio:.2} times what flock takes")) }
}

/// Runs a measurement that is an example of a crate; it prints its figures itself.
fn run_example(package: &str, example: &str) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", package, "--example", example])
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{package} is over its budget")) }
}

fn build_release() -> Result<PathBuf, String> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "lockkeeper-cli"])
        .status()
        .map_err(|error| error.to_string())?;
    if !status.success() {
        return Err("the release build failed".to_owned());
    }
    Ok(target_folder().join("release/lockkeeper"))
}

#[expect(clippy::disallowed_methods, reason = "times a whole command; nothing is decided by it")]
fn time(command: &mut Command) -> Result<Duration, String> {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    let took = start.elapsed();
    if status.success() { Ok(took) } else { Err(format!("{command:?}: {status}")) }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
