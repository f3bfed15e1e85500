//! Running a command under a lock: the command never outlives the hold, and the hold never ends before the command.
//!
//! Three processes take part, and two programs are executed: this one and the command. The *runner* holds the lock and
//! renews it. The *watchdog*, a fork of the runner, starts the command and ends it when the runner dies or the hold
//! runs out. The *launcher*, a fork of the watchdog, is the command before it is one: it ties its life to the
//! watchdog's and executes the command.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `runner` | the runner's loop: signals, renewals, loss, the end of the watchdog |
//! | `terminal` | which group has the terminal; Ctrl-Z; which signals reach the command |
//! | `stand_by` | what the caller hands over and gets back; making a watchdog before it is needed; its end, as its runner sees it |
//! | `watchdog` | the watchdog's loop, and its timer, which does not stop while the machine sleeps |
//! | `launcher` | from the watchdog to the command |
//! | `ending` | which grace fits, when to ask the command to end and when to kill it: pure |
//! | `group` | the command's processes, in its group and strayed from it: kill them, wait for their end |
//! | `processes` | the process table |
//! | `channel` | the messages between the three |
//! | `hold_socket` | what the command may ask of its runner |
//!
//! How the lock is taken and released, the environment and the exit codes belong to the caller.

mod channel;
mod ending;
mod group;
pub(crate) mod hold_socket;
mod launcher;
mod processes;
mod runner;
mod stand_by;
mod terminal;
mod watchdog;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use ending::settle_grace;
pub(crate) use runner::supervise;
pub(crate) use stand_by::{CommandOutcome, LeavingWatchdog, OnLoss, StandBy, StopOrder, Supervision};
pub(crate) use terminal::in_foreground;
#[cfg(feature = "top")]
pub(crate) use terminal::{JobControl, stop_job};

/// Runs this process as the watchdog if its first argument says so.
///
/// `main` calls it first of all, so that a watchdog pays neither for parsing options nor for an asynchronous runtime.
/// It refuses to run when a person starts it.
pub(crate) fn hidden_step(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let is_watchdog = arguments.nth(1)? == watchdog::STEP;
    is_watchdog.then(|| ExitCode::from(watchdog::run(&arguments.collect::<Vec<_>>())))
}
