//! The other process: a program that holds a lock until it is told to end, and tells how long it believed in it.

use std::io::{BufRead as _, Write as _};
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_recipes::Hold;

use crate::stage::keeper;

/// Its URL, and the lock's name.
const VARIABLES: [&str; 2] = ["LOCKKEEPER_TEST_URL", "LOCKKEEPER_TEST_LOCK"];

/// How often it asks whether it holds the lock.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Tells a command which program it is to be.
pub(crate) fn tell(command: &mut Command, url: &str, lock: &str) {
    command.envs(VARIABLES.into_iter().zip([url, lock]));
}

/// Plays the other process, if this is one.
pub(crate) fn play() -> Option<ExitCode> {
    let [url, lock] = VARIABLES.map(|name| std::env::var(name).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(hold(&url?, &lock?));
    Some(ExitCode::SUCCESS)
}

/// Says `held TOKEN`, and later `lost NANOSECONDS REASON`: when it last found that it held the lock, and why no longer.
async fn hold(url: &str, lock: &str) {
    let mutex = keeper(url).mutex(lock).expect("a name");
    let guard = mutex.lock().await.expect("the lock is granted");
    say(&format!("held {}", guard.fencing_token()));
    let last = last_held(guard.hold()).await;
    say(&format!("lost {} {:?}", last.as_nanos(), guard.hold().lost().await));
    // The test may still have to kill it.
    tokio::task::spawn_blocking(hear).await.expect("no panic");
}

/// Asks again and again until the lock is not held; returns when it was last.
pub(crate) async fn last_held(hold: &Hold) -> BootInstant {
    let mut last = SystemClock.now();
    loop {
        // Read before the question: at this moment or later it was held.
        let asked_at = SystemClock.now();
        if !hold.is_held() {
            return last;
        }
        last = asked_at;
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test reads");
}

fn hear() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("the test writes, or ends");
}
