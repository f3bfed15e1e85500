//! The other process: a program that holds a lock and ends, one way or another, or that stands still for a while.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::SOON;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_zookeeper::ZooKeeperBackend;

use crate::Way;

/// Its URL, the lock's name, and the way in which it ends.
const VARIABLES: [&str; 3] = ["LOCKKEEPER_TEST_URL", "LOCKKEEPER_TEST_LOCK", "LOCKKEEPER_TEST_WAY"];

/// Tells a command which program it is to be.
pub(crate) fn tell(command: &mut tokio::process::Command, url: &str, lock: &str, way: Way) {
    command.envs(VARIABLES.into_iter().zip([url, lock, way.name()]));
}

/// Plays the other process, if this is one.
pub(crate) fn play() -> Option<ExitCode> {
    let way = Way::of_name(&std::env::var(VARIABLES[2]).ok()?).expect("a way");
    match way {
        Way::DroppedCurrent => dropped_current(),
        Way::DroppedMulti => dropped_multi(),
        Way::PanickedCurrent => panicked_current(),
        Way::PanickedMulti => panicked_multi(),
        Way::OwnedCurrent => owned_current(),
        Way::OwnedMulti => owned_multi(),
        Way::BackgroundCurrent => in_background(&mut tokio::runtime::Builder::new_current_thread()),
        Way::BackgroundMulti => in_background(&mut tokio::runtime::Builder::new_multi_thread()),
        Way::StoodStill => stood_still(),
    }
    Some(ExitCode::SUCCESS)
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

#[tokio::main(flavor = "current_thread")]
async fn dropped_current() {
    drop(held().await);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_multi() {
    drop(held().await);
}

#[tokio::main(flavor = "current_thread")]
async fn panicked_current() {
    let _guard = held().await;
    panic!("as it should");
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn panicked_multi() {
    let _guard = held().await;
    panic!("as it should");
}

async fn give_to_a_task() {
    let guard = held().await;
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(guard);
    });
    tokio::task::yield_now().await;
}

#[tokio::main(flavor = "current_thread")]
async fn owned_current() {
    give_to_a_task().await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn owned_multi() {
    give_to_a_task().await;
}

/// The runtime is shut down in the background, and the guard outlives it; the program goes on.
fn in_background(builder: &mut tokio::runtime::Builder) {
    let runtime = builder.enable_all().build().unwrap();
    let guard = runtime.block_on(held());
    runtime.shutdown_background();
    hear();
    drop(guard);
}

/// Has a session, is stopped and continued by the test, and then asks for a lock that is free.
#[tokio::main(flavor = "current_thread")]
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
