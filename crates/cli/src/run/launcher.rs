//! The command, before it is one: ties its life to the watchdog's, then executes the command in its own place.
//!
//! A program of its own, so that nothing has to run between `fork` and `exec`, where almost nothing is allowed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::channel::{self, Message};

/// The first argument that makes this binary the launcher.
pub(super) const STEP: &str = "__launch";

/// Waits for the watchdog's word and becomes the command `arguments`; returns only if that fails.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let failure = match prepare() {
        Ok(watchdog) => {
            let errno = errno(&execute(arguments));
            channel::send(&watchdog, Message::NotExecuted { errno }, &[])
        }
        Err(error) => {
            let errno = errno(&error);
            channel::send(rustix::stdio::stdin(), Message::NotLaunched { errno }, &[])
        }
    };
    super::step_ended(failure)
}

/// Does all that has to be done before the command; returns a way to the watchdog that ends with this program.
///
/// stdin is the watchdog's socket at first, over which the command's own stdin comes.
fn prepare() -> io::Result<OwnedFd> {
    // From here on we die when the watchdog does; whether it died before is seen below.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let watchdog = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let Some((Message::Go { parent }, files)) = channel::receive(&watchdog, RecvFlags::empty())? else {
        return Err(Errno::PIPE.into());
    };
    let stdin = files.first().ok_or(Errno::BADF)?;
    if getppid().is_none_or(|pid| pid.as_raw_pid() != parent) {
        return Err(Errno::SRCH.into());
    }
    rustix::stdio::dup2_stdin(stdin)?;
    // The watchdog blocks every signal, and a mask is inherited.
    SigSet::empty().thread_set_mask()?;
    Ok(watchdog)
}

/// Becomes the command; the answer is why not.
fn execute(mut arguments: impl Iterator<Item = OsString>) -> io::Error {
    match arguments.next() {
        // `exec` also gives SIGPIPE back its default, which our own runtime had set aside.
        Some(program) => Command::new(program).args(arguments).exec(),
        None => Errno::NOENT.into(),
    }
}

fn errno(error: &io::Error) -> i32 {
    // An argument with a zero byte cannot come in as an argument, and all else has a number.
    error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())
}
