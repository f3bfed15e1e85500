//! Programs that hold a lock and end without releasing it: real processes, against a real server and with sessions that
//! are far longer than the test waits.
//!
//! Each way of ending is tried fifty times in `cargo xtask test --long`, a tenth otherwise.

use std::io::{BufRead as _, Write as _};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::long;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::runtime::Builder;

/// How often the long run tries each way.
const TRIES_LONG: u32 = 50;

/// How long the next caller waits at most after the end of a program, as a thread counts it that only sleeps …
const GRANTED_WITHIN: Duration = Duration::from_secs(1);

/// … and in the plain run, beside which other tests run: far less than the session timeout.
const GRANTED_WITHIN_PLAIN: Duration = Duration::from_secs(10);

/// The ways in which a program ends.
const WAYS: [&str; 2] =
    ["a_panic_in_main_frees_the_lock", "a_task_that_still_has_the_guard_when_main_ends_frees_the_lock"];

/// What tells this program to be the other process: the URL, the lock's name, its end, and its runtime's threads.
const PROGRAM: &str = "LOCKKEEPER_TEST_ENDING";

fn main() -> ExitCode {
    if let Ok(told) = std::env::var(PROGRAM) {
        let told: Vec<_> = told.split(' ').collect();
        play(told[0], told[1], told[2], told[3]);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // The tests measure how fast it is, and the programs are separate processes.
    arguments.test_threads = Some(1);
    let trials = WAYS.map(|way| Trial::test(way, move || judged(way)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn keeper(url: &str) -> Keeper {
    Keeper::new(Arc::new(ZooKeeperBackend::open(&url.parse().expect("a URL")).expect("a good URL")))
}

/// Plays the other process: it takes the lock, says so, waits for a word, and ends.
fn play(url: &str, lock: &str, way: &str, threads: &str) {
    let mut builder = if threads == "one" { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let guard: MutexGuard = keeper(url).mutex(lock).unwrap().lock().await.unwrap();
        println!("held");
        std::io::stdout().flush().unwrap();
        let hear = || std::io::stdin().lock().read_line(&mut String::new()).unwrap();
        tokio::task::spawn_blocking(hear).await.unwrap();
        assert_ne!(way, WAYS[0], "as it should");
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
        tokio::task::yield_now().await;
    });
}

fn judged(way: &str) -> Result<(), Failed> {
    if !zookeeper::availability().or_skip(way) {
        return Ok(());
    }
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = Server::standalone(Setup::new()).await?;
        // Far longer than anything is waited for: no lock is free because a session has expired.
        let url = format!("zk://{}?session_timeout=40s", server.address());
        for threads in ["one", "several"] {
            end_again_and_again(&url, way, threads).await?;
        }
        Ok(())
    })
}

async fn end_again_and_again(url: &str, way: &str, threads: &str) -> Result<(), Failed> {
    let (tries, keeper) = (long::rounds(TRIES_LONG), keeper(url));
    let granted_within = if long::is_asked_for() { GRANTED_WITHIN } else { GRANTED_WITHIN_PLAIN };
    let mut slowest = Duration::ZERO;
    for number in 0..tries {
        let name = format!("ending-{threads}-{number}");
        let mut command = Command::new(std::env::current_exe()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        // Writing a backtrace can take longer than what is measured, and a guard is dropped only after it.
        command.env("RUST_BACKTRACE", "0").env(PROGRAM, format!("{url} {name} {way} {threads}"));
        let mut program = command.spawn()?;
        let mut output = BufReader::new(program.stdout.take().ok_or("no stdout")?).lines();
        assert_eq!(soon("the program's word", output.next_line()).await?.as_deref(), Some("held"));
        let mutex = keeper.mutex(&name)?;
        let waiting = tokio::spawn(async move { mutex.lock().await });
        while keeper.contenders(&name).await?.len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let since_end = Sleeper::start();
        program.stdin.take().ok_or("no stdin")?.write_all(b"\n").await?;
        let granted = soon("the grant after the end of the program", waiting).await??;
        let took = since_end.slept();
        slowest = slowest.max(took);
        if took > granted_within {
            return Err(format!("{threads}, try {number}: granted only after {took:?}").into());
        }
        granted.release().await?;
        tokio::time::timeout(SOON, program.wait()).await??;
    }
    println!("{threads}, {tries} tries, {slowest:?} at most: {way}");
    keeper.close().await?;
    Ok(())
}
