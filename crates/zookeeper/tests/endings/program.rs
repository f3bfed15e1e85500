//! The other process: a program that holds a lock and ends, one way or another, or that stands still for a while.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::runtime::{Builder, Runtime};

use crate::{Threads, Way};

/// Its URL, the lock's name, the way in which it ends, and what its runtime runs on.
const VARIABLES: [&str; 4] =
    ["LOCKKEEPER_TEST_URL", "LOCKKEEPER_TEST_LOCK", "LOCKKEEPER_TEST_WAY", "LOCKKEEPER_TEST_THREADS"];

/// Tells a command which program it is to be.
pub(crate) fn tell(command: &mut tokio::process::Command, url: &str, lock: &str, way: Way, threads: Threads) {
    command.envs(VARIABLES.into_iter().zip([url, lock, way.name(), &format!("{threads:?}")]));
}

/// Plays the other process, if this is one.
pub(crate) fn play() -> Option<ExitCode> {
    let way = Way::of_name(&std::env::var(VARIABLES[2]).ok()?).expect("a way");
    let runtime = runtime();
    match way {
        Way::Dropped => runtime.block_on(async { drop(held().await) }),
        Way::Panicked => runtime.block_on(async {
            let _guard = held().await;
            panic!("as it should");
        }),
        Way::Owned => runtime.block_on(give_to_a_task()),
        Way::Background => in_background(runtime),
        Way::StoodStill => runtime.block_on(stood_still()),
    }
    Some(ExitCode::SUCCESS)
}

fn runtime() -> Runtime {
    let mut builder = match std::env::var(VARIABLES[3]).unwrap() == format!("{:?}", Threads::One) {
        true => Builder::new_current_thread(),
        false => Builder::new_multi_thread(),
    };
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn keeper() -> Keeper {
    let url = std::env::var(VARIABLES[0]).unwrap();
    Keeper::new(Arc::new(ZooKeeperBackend::open(&url.parse().unwrap()).unwrap()))
}

/// Takes the lock, says so, and waits for a word.
async fn held() -> MutexGuard {
    let guard = keeper().mutex(&std::env::var(VARIABLES[1]).unwrap()).unwrap().lock().await.unwrap();
    say("held");
    tokio::task::spawn_blocking(hear).await.unwrap();
    guard
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

fn hear() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

async fn give_to_a_task() {
    let guard = held().await;
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(guard);
    });
    tokio::task::yield_now().await;
}

/// The runtime is shut down in the background, and the guard outlives it; the program goes on.
fn in_background(runtime: Runtime) {
    let guard = runtime.block_on(held());
    runtime.shutdown_background();
    hear();
    drop(guard);
}

/// Has a session, is stopped and continued by the test, and then asks for a lock that is free.
async fn stood_still() {
    let mutex = keeper().mutex(&std::env::var(VARIABLES[1]).unwrap()).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    // Until the newest answers are no longer those of the handshake.
    tokio::time::sleep(Duration::from_secs(8)).await;
    say("ready");
    tokio::task::spawn_blocking(hear).await.unwrap();
    let since_call = Sleeper::start();
    let granted = mutex.lock_timeout(SOON).await;
    let took = since_call.slept().as_millis();
    match granted {
        Ok(Some(guard)) => say(&format!("granted {took} {}", guard.hold().is_held())),
        other => say(&format!("{other:?}")),
    }
}
