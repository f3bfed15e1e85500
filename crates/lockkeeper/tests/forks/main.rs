//! Programs that fork while they hold a lock: real processes, against real servers and with brief sessions.
//!
//! A fork has copies of the keeper, the lock and the guard. Whatever it does with them, its parent goes on to hold the
//! lock, and another client is not granted it before the parent has given it back.

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
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::{figures, long, process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::program::{PROGRAM, Program};
use crate::service::Service;

/// How many forks of each program the long run has.
const FORKS_LONG: u32 = 50;

/// As short as all services allow, so that a session whose end is near ends within the test.
const SETTINGS: &str = "session_timeout=2s";

/// How long the programs hold the lock after their last fork: longer than a session lives that is not kept.
const HELD_AFTER: Duration = Duration::from_secs(6);

/// What a program comes to, or why it did not.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TESTS: [(&str, Service); 7] = [
    ("forks_leave_the_locks_of_their_parents_alone_on_etcd", Service::Etcd),
    ("forks_leave_the_locks_of_their_parents_alone_on_files", Service::File),
    ("forks_leave_the_locks_of_their_parents_alone_on_mariadb", Service::MariaDb),
    ("forks_leave_the_locks_of_their_parents_alone_on_postgresql", Service::PostgreSql),
    ("forks_leave_the_locks_of_their_parents_alone_on_redis", Service::Redis),
    ("forks_leave_the_locks_of_their_parents_alone_on_redis_by_its_socket", Service::RedisSocket),
    ("forks_leave_the_locks_of_their_parents_alone_on_zookeeper", Service::ZooKeeper),
];

fn main() -> ExitCode {
    if let Ok(told) = std::env::var(PROGRAM) {
        return Program::read(&told).play(HELD_AFTER);
    }
    let arguments = Arguments::from_args();
    let trials = TESTS.map(|(name, service)| Trial::test(name, move || judged(name, service)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

/// Plays all programs on one service, side by side.
fn judged(name: &str, service: Service) -> Result<(), Failed> {
    if !service.availability().and(process::availability).or_skip(name) {
        return Ok(());
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = service.start(SETTINGS).await;
        let playing = Program::all(&server.url, long::rounds(FORKS_LONG)).map(|program| {
            let keeper = lockkeeper::connect(server.url.as_str()).expect("a good URL");
            tokio::spawn(async move { play(keeper, &program).await.map_err(|why| format!("{program:?}: {why}")) })
        });
        for played in playing.collect::<Vec<_>>() {
            played.await??;
        }
        Ok(())
    })
}

/// Starts a program, which takes its lock and forks; waits behind it, and compares when each had the lock.
async fn play(keeper: Keeper, program: &Program) -> Outcome<()> {
    let mut command = Command::from(process::command(std::env::current_exe()?));
    command.stdout(Stdio::piped()).kill_on_drop(true).env(PROGRAM, program.told());
    let mut process = command.spawn()?;
    let mut output = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
    assert_eq!(soon("the program's word", output.next_line()).await?.as_deref(), Some("held"));
    let mutex = keeper.mutex(&program.lock())?;
    let waiting = tokio::spawn(async move { (mutex.lock().await, SystemClock.now()) });
    let last = soon("the end of the hold", output.next_line()).await?.ok_or("it ended without a word")?;
    let last_held_nanos: u64 = last.parse().map_err(|_| last)?;
    let (granted, granted_at) = soon("the grant", waiting).await?;
    granted?.release().await?;
    let status = tokio::time::timeout(SOON, process.wait()).await??;
    figures::tell(&format!("forks: {program:?}: the next is granted after the holder's last look"));
    match granted_at.as_nanos() >= last_held_nanos && status.success() {
        true => Ok(keeper.close().await?),
        false => Err(format!("granted at {granted_at:?}, held until {last_held_nanos}; {status}").into()),
    }
}
