//! The command, before it is one: a fork of the watchdog that ties its life to the watchdog's and then executes the
//! command in its own place.
//!
//! The watchdog has one thread, so its fork may do whatever a program may do.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use fork::Fork;
use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setpgid};
use rustix::termios::tcsetpgrp;

use super::FAILED;
use super::channel::{self, Foreground, Message};

/// What a launcher makes a command of.
pub(super) struct Launch<'a> {
    /// The command and its arguments.
    pub(super) command: &'a [OsString],
    /// Added to the inherited environment.
    pub(super) environment: &'a [(OsString, OsString)],
    /// The command's stdin.
    pub(super) stdin: &'a OwnedFd,
    /// Whether its group gets the terminal first.
    pub(super) foreground: Foreground,
}

impl Launch<'_> {
    /// Starts the command in a group of its own, which it leads; returns its process id, in the watchdog alone.
    ///
    /// The launcher itself tells the runner its process id before it executes the command, and why it could not.
    ///
    /// # Errors
    ///
    /// Too many processes.
    pub(super) fn start(&self) -> io::Result<Pid> {
        let watchdog = getpid();
        match fork::fork()? {
            Fork::Parent(pid) => {
                let leader = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                // The launcher does it too: whoever comes first, a signal to the group finds it from here on. It fails
                // if the command is executed already.
                let _ = setpgid(Some(leader), Some(leader));
                Ok(leader)
            }
            Fork::Child => {
                self.run(watchdog);
                std::process::exit(FAILED.into())
            }
        }
    }

    /// Becomes the command; returns only if that fails, when the runner has been told.
    fn run(&self, watchdog: Pid) {
        // If the runner is gone, the watchdog ends what there is, and nobody wants to know.
        let _ = match self.prepare(watchdog) {
            Ok(runner) => channel::send(&runner, Message::NotExecuted { errno: errno(&self.execute()) }, &[]),
            Err(error) => channel::send(rustix::stdio::stdin(), Message::NotLaunched { errno: errno(&error) }, &[]),
        };
    }

    /// Does all that has to be done before the command; returns a way to the runner that ends with this program.
    ///
    /// stdin is the watchdog's way to the runner at first.
    fn prepare(&self, watchdog: Pid) -> io::Result<OwnedFd> {
        // From here on we die when the watchdog does; whether it died before is seen next.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(watchdog) {
            return Err(Errno::SRCH.into());
        }
        setpgid(None, None)?;
        if self.foreground == Foreground::Take {
            // We are in the background and SIGTTOU is blocked, so this is allowed. A terminal that hung up meanwhile
            // tells the command so itself.
            let _ = tcsetpgrp(self.stdin, getpid());
        }
        let runner = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        // A runner that outlives the watchdog knows by this which group to end; without a runner there is no command.
        channel::send(&runner, Message::Launched { pid: getpid().as_raw_pid() }, &[])?;
        rustix::stdio::dup2_stdin(self.stdin)?;
        // The watchdog blocks every signal, and a mask is inherited.
        SigSet::empty().thread_set_mask()?;
        Ok(runner)
    }

    /// Becomes the command; the answer is why not.
    fn execute(&self) -> io::Error {
        match self.command {
            // `exec` also gives SIGPIPE back its default, which our own runtime had set aside.
            [program, arguments @ ..] => {
                Command::new(program).args(arguments).envs(self.environment.iter().cloned()).exec()
            }
            [] => Errno::NOENT.into(),
        }
    }
}

fn errno(error: &io::Error) -> i32 {
    // An argument with a zero byte cannot come in as an argument, and all else has a number.
    error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())
}
