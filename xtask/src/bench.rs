//! `cargo xtask bench`: the performance budgets, as ratios taken in one run on one machine.
//!
//! Builds the crate `lockkeeper-bench` for release and runs it; it has the rows, their budgets and the report. What it
//! does not measure yet is an example of its crate, which prints its figures itself.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};

use crate::cargo::{succeeded, target_folder};

/// Options of `cargo xtask bench`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// What to measure; everything if nothing is named.
    what: Vec<What>,
    /// One short round of each of memory, file and run, to see that it works; its figures are not judged.
    #[arg(long)]
    quick: bool,
    /// Write the rows of memory, file and run to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the plots of memory and run as SVG into this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum What {
    /// The recipes alone, on the memory backend.
    Memory,
    /// The library on files against the bare system calls.
    File,
    /// The command against flock(1), as whole processes.
    Run,
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
    let groups: Vec<&str> = [(What::Memory, "memory"), (What::File, "file"), (What::Run, "run")]
        .into_iter()
        .filter_map(|(what, name)| wanted(what).then_some(name))
        .collect();
    let mut outcomes = Vec::new();
    if !groups.is_empty() {
        outcomes.push(run_groups(&groups, options));
    }
    // The examples have no short form.
    for what in What::value_variants().iter().filter(|what| wanted(**what) && !options.quick) {
        match what {
            What::Memory | What::File | What::Run => {}
            What::Server => outcomes.push(run_example("lockkeeper-zk-server", "server_load")),
            What::Lock => outcomes.push(run_example("lockkeeper-zookeeper", "lock_speed")),
            What::Etcd => outcomes.push(run_example("lockkeeper-etcd", "etcd_lock_speed")),
            What::Redis => outcomes.push(run_example("lockkeeper-redis", "redis_lock_speed")),
            What::Sql => outcomes.push(run_example("lockkeeper-sql", "sql_lock_speed")),
        }
    }
    if outcomes.is_empty() {
        outcomes.push(Err("nothing that is named has a quick form: name memory, file or run".to_owned()));
    }
    let mut code = ExitCode::SUCCESS;
    for why in outcomes.into_iter().filter_map(Result::err) {
        eprintln!("bench: {why}");
        code = ExitCode::FAILURE;
    }
    code
}

/// Builds the benchmark, and the command that it measures beside itself, and runs it.
fn run_groups(groups: &[&str], options: &Options) -> Result<(), String> {
    let build = ["build", "--quiet", "--release", "--package", "lockkeeper-bench", "--package", "lockkeeper-cli"];
    let status = Command::new(env!("CARGO")).args(build).status().map_err(|error| error.to_string())?;
    succeeded(status).map_err(|error| format!("the release build failed: {error}"))?;
    let program = target_folder().join("release/lockkeeper-bench");
    let mut command = Command::new(&program);
    command.args(groups);
    if options.quick {
        command.arg("--quick");
    }
    for (option, path) in [("--json", &options.json), ("--plots", &options.plots)] {
        if let Some(path) = path {
            command.arg(option).arg(path);
        }
    }
    let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() { Ok(()) } else { Err("not all rows are met".to_owned()) }
}

/// Runs a measurement that is an example of a crate; it prints its figures itself.
fn run_example(package: &str, example: &str) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", package, "--example", example])
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{package} is over its budget")) }
}
