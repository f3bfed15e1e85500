//! What the tests of `lockkeeper run` share: waiting with a deadline, looking at processes, and a pseudo-terminal.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod place;
pub mod terminal;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a thing that must happen may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "a test's own deadline")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits until `look` finds something.
#[expect(clippy::disallowed_methods, reason = "pauses between looks, up to a deadline")]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for the end of a process of ours.
pub fn ended(process: &mut Child) -> ExitStatus {
    eventually("the process ends", || process.try_wait().unwrap())
}

/// Waits for a file with a whole line and returns the number in it.
pub fn number_in(file: &Path) -> i32 {
    eventually(&format!("a number is in {}", file.display()), || {
        fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()
    })
}

/// Tells whether a process can still do anything: a dead one that was not waited for cannot.
pub fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// Returns the state letter of a process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Sends a signal, which must succeed.
pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The command under test, with its locks in `directory`.
pub fn lockkeeper(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.env("LOCKKEEPER_DIR", directory);
    command
}
