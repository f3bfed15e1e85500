//! Running a command under a lock: the command never outlives the hold, and the hold never ends before the command.
//!
//! Three processes take part, all of this one binary. The *runner* holds the lock and renews it. The *watchdog* starts
//! the command and ends it when the runner dies or the hold runs out. The *launcher* is the command before it is one:
//! it ties its life to the watchdog's and then executes the command in its own place.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `supervision` | what the caller hands over, and what comes back |
//! | `runner` | the runner's loop: signals, renewals, loss, the end of the watchdog |
//! | `terminal` | who has the terminal; Ctrl-Z |
//! | `signals` | which signals reach the command |
//! | `watchdog`, `launcher` | the two hidden steps |
//! | `ending` | which grace fits, when to ask the command to end and when to kill it: pure |
//! | `group` | the command's processes, in its group and strayed from it: kill them, see them gone |
//! | `processes` | the process table |
//! | `channel` | the messages between the three |
//! | `alarm` | a timer that does not stop while the machine sleeps |
//! | `hold_socket` | what the command may ask of its runner |
//!
//! How the lock is taken and released, the environment and the exit codes belong to the caller.

mod alarm;
mod channel;
mod ending;
mod group;
pub(crate) mod hold_socket;
mod launcher;
mod processes;
mod runner;
mod signals;
mod supervision;
mod terminal;
mod watchdog;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

pub(crate) use ending::settle_grace;
pub(crate) use runner::supervise;
pub(crate) use signals::ignored;
pub(crate) use supervision::{OnLoss, Outcome, Stop, Supervision};
pub(crate) use terminal::in_foreground;

/// Runs this process as the watchdog or the launcher if its first argument says so.
///
/// `main` calls it first of all: each command under a lock passes through both steps, so neither pays for parsing
/// options or for an asynchronous runtime. Both refuse to run when a person starts them.
pub(crate) fn hidden_step(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let step = arguments.nth(1)?;
    if step == watchdog::STEP {
        Some(watchdog::run(arguments.collect()))
    } else if step == launcher::STEP {
        Some(launcher::run(arguments))
    } else {
        None
    }
}

/// Ends a hidden step.
fn step_ended(result: io::Result<()>) -> ExitCode {
    const FAILED: u8 = 125; // what the command line gives for a failure of ours
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever started this step is gone, and with it whoever wants to know.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(FAILED),
        Err(error) => {
            say(&format!("a step of `lockkeeper run`, which only it can start, failed: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Writes one line of ours to stderr; the command's own words go there too, hence the prefix.
///
/// One write, so that lines of several processes do not mix. Whether anybody reads it changes nothing.
pub(crate) fn say(line: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("lockkeeper: {line}\n").as_bytes());
}
