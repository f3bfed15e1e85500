//! Programs that end while they hold a lock or have just dropped it: real processes, against real servers and with
//! sessions that are far longer than the test waits.
//!
//! Each way of ending is tried twenty times in `cargo xtask test --long`, a tenth otherwise.

mod program;
#[path = "../support/service.rs"]
mod service;
#[path = "../support/threads.rs"]
mod threads;

use std::error::Error;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper::Keeper;
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::{figures, long};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::program::{LOCK, PROGRAM, Program};
use crate::service::Service;

/// Far longer than anything is waited for: no lock is free because a session has expired.
const SETTINGS: &str = "session_timeout=40s";

/// How often the long run tries each way.
const TRIES_LONG: u32 = 20;

/// How long the next caller waits at most after the end of a program, as a thread counts it that only sleeps …
const GRANTED_WITHIN: Duration = Duration::from_millis(500);

/// … and in other runs, beside which other tests run: far less than the session timeout.
const GRANTED_WITHIN_PLAIN: Duration = Duration::from_secs(10);

/// What a round comes to, or why there was none.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TESTS: [(&str, Service); 7] = [
    ("the_end_of_a_program_frees_its_locks_on_etcd", Service::Etcd),
    ("the_end_of_a_program_frees_its_locks_on_files", Service::File),
    ("the_end_of_a_program_frees_its_locks_on_mariadb", Service::MariaDb),
    ("the_end_of_a_program_frees_its_locks_on_postgresql", Service::PostgreSql),
    ("the_end_of_a_program_frees_its_locks_on_redis", Service::Redis),
    ("the_end_of_a_program_frees_its_locks_on_redis_by_its_socket", Service::RedisSocket),
    ("the_end_of_a_program_frees_its_locks_on_zookeeper", Service::ZooKeeper),
];

fn main() -> ExitCode {
    if let Ok(told) = std::env::var(PROGRAM) {
        Program::read(&told).play();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // The tests measure how fast it is, and the programs are separate processes.
    arguments.test_threads = Some(1);
    let trials = TESTS.map(|(name, service)| Trial::test(name, move || judged(name, service)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

/// Plays all programs on one service.
fn judged(name: &str, service: Service) -> Result<(), Failed> {
    if !service.availability().or_skip(name) {
        return Ok(());
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = service.start(SETTINGS).await;
        let keeper = lockkeeper::connect(server.url.as_str())?;
        for program in Program::all(&server.url) {
            end_again_and_again(&keeper, &program).await.map_err(|why| format!("{program:?}: {why}"))?;
        }
        keeper.close().await?;
        Ok(())
    })
}

async fn end_again_and_again(keeper: &Keeper, program: &Program) -> Outcome<()> {
    let tries = long::rounds(TRIES_LONG);
    let granted_within = if long::is_asked_for() { GRANTED_WITHIN } else { GRANTED_WITHIN_PLAIN };
    let mut waits = Vec::new();
    for _ in 0..tries {
        waits.push(end(keeper, program).await?);
    }
    waits.sort();
    let slowest = waits.last().copied().unwrap_or_default();
    figures::tell(&format!("endings: {program:?}: {tries} tries, the next is granted within {slowest:?}"));
    match slowest <= granted_within {
        true => Ok(()),
        false => Err(format!("granted only after {waits:?}").into()),
    }
}

/// Starts a program that takes the lock, waits for that, and lets the program end; returns after how long we have it.
async fn end(keeper: &Keeper, program: &Program) -> Outcome<Duration> {
    let mut command = Command::new(std::env::current_exe()?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    // Writing a backtrace can take longer than what is measured, and a guard is dropped only after it.
    command.env("RUST_BACKTRACE", "0").env(PROGRAM, program.told());
    let mut process = command.spawn()?;
    let mut output = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
    assert_eq!(soon("the program's word", output.next_line()).await?.as_deref(), Some("held"));
    let mutex = keeper.mutex(LOCK)?;
    let waiting = tokio::spawn(async move { mutex.lock().await });
    while keeper.contenders(LOCK).await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let since_end = Sleeper::start();
    process.stdin.take().ok_or("no stdin")?.write_all(b"\n").await?;
    let granted = soon("the grant after the end of the program", waiting).await??;
    let took = since_end.slept();
    granted.release().await?;
    tokio::time::timeout(SOON, process.wait()).await??;
    Ok(took)
}
