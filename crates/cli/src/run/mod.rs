//! Running a command under a lock: the command never outlives the hold, and the hold never ends before the command.
//!
//! Three processes take part, and two programs are executed: this one and the command. The *runner* holds the lock and
//! renews it. The *watchdog*, a fork of the runner, starts the command and ends it when the runner dies or the hold
//! runs out. The *launcher*, a fork of the watchdog, is the command before it is one: it ties its life to the
//! watchdog's and executes the command.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `supervision` | what the caller hands over, and what comes back |
//! | `runner` | the runner's loop: signals, renewals, loss, the end of the watchdog |
//! | `terminal` | which group has the terminal; Ctrl-Z |
//! | `signals` | which signals reach the command |
//! | `stand_by` | making a watchdog before it is needed |
//! | `watchdog` | the watchdog's loop |
//! | `watchdog_end` | the end of a watchdog, as its runner sees it |
//! | `launcher` | from the watchdog to the command |
//! | `ending` | which grace fits, when to ask the command to end and when to kill it: pure |
//! | `group` | the command's processes, in its group and strayed from it: kill them, wait for their end |
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
mod stand_by;
mod supervision;
mod terminal;
mod watchdog;
mod watchdog_end;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use ending::settle_grace;
pub(crate) use runner::supervise;
pub(crate) use stand_by::StandBy;
pub(crate) use supervision::{CommandOutcome, OnLoss, StopOrder, Supervision};
pub(crate) use terminal::in_foreground;
#[cfg(feature = "top")]
pub(crate) use terminal::{JobControl, stop_job};
pub(crate) use watchdog_end::LeavingWatchdog;

/// Runs this process as the watchdog if its first argument says so.
///
/// `main` calls it first of all, so that a watchdog pays neither for parsing options nor for an asynchronous runtime.
/// It refuses to run when a person starts it.
pub(crate) fn hidden_step(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let is_watchdog = arguments.nth(1)? == watchdog::STEP;
    is_watchdog.then(|| ExitCode::from(watchdog::run(&arguments.collect::<Vec<_>>())))
}
