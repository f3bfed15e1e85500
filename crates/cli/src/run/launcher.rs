//! The command, before it is one: a fork of the watchdog that ties its life to the watchdog's. Once it is told to, it
//! executes the command in its own place.
//!
//! It is made before the lock is granted, so that the command need not wait for it. The watchdog has one thread, so its
//! fork may do all that a program may do.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use fork::Fork;
use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, set_parent_process_death_signal, setpgid, waitid,
};
use rustix::termios::tcsetpgrp;

use super::channel::{self, Foreground, Message, Variables};

/// The exit code of a process of ours that fails: that of the command line for a failure of ours.
pub(super) const FAILED: u8 = 125;

/// The watchdog's side of a launcher.
pub(super) struct Launcher {
    leader: Pid,
    channel: OwnedFd,
}

impl Launcher {
    /// Makes a launcher of `command` in a separate group, which it leads; returns in the watchdog alone.
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        let (ours, theirs) = channel::pair()?;
        let watchdog = getpid();
        match fork::fork()? {
            Fork::Parent(pid) => {
                let leader = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                // The launcher does it too: no matter which comes first, a signal to the group finds it from here on.
                let _ = setpgid(Some(leader), Some(leader));
                Ok(Self { leader, channel: ours })
            }
            Fork::Child => {
                drop(ours);
                run(command, &theirs, watchdog);
                std::process::exit(FAILED.into())
            }
        }
    }

    /// Makes it become the command, with these variables added to the environment; returns its process id.
    ///
    /// The launcher itself tells the runner its process id before it executes the command, or why it could not.
    /// Fails if it was killed.
    pub(super) fn go(
        self,
        environment: &[(OsString, OsString)],
        foreground: Foreground,
        stdin: &OwnedFd,
    ) -> io::Result<Pid> {
        channel::send_environment(&self.channel, environment)?;
        channel::send(&self.channel, Message::Go { foreground }, &[stdin.as_fd()])?;
        Ok(self.leader)
    }

    pub(super) fn end(self) {
        let _ = kill_process(self.leader, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED);
    }
}

/// Waits for the message to go on and becomes the command; returns only if that fails, when the runner has been told.
///
/// stdin is the watchdog's way to the runner at first.
fn run(command: &[OsString], channel: &OwnedFd, watchdog: Pid) {
    // If the runner is gone, the watchdog ends the command, and no process needs the answer.
    let _ = match prepare(channel, watchdog) {
        Ok(Some((runner, environment))) => {
            let errno = errno(&execute(command, environment));
            channel::send(&runner, Message::NotExecuted { errno }, &[])
        }
        Ok(None) => Ok(()),
        Err(error) => channel::send(rustix::stdio::stdin(), Message::NotLaunched { errno: errno(&error) }, &[]),
    };
}

/// Does all that has to be done before the command; returns a way to the runner that ends with this program, and the
/// variables to add. `None` when the watchdog is gone.
fn prepare(channel: &OwnedFd, watchdog: Pid) -> io::Result<Option<(OwnedFd, Variables)>> {
    // From here on we die when the watchdog does; whether it died before is seen next.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(watchdog) {
        return Err(Errno::SRCH.into());
    }
    setpgid(None, None)?;
    let runner = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let Some(environment) = channel::receive_environment(channel)? else { return Ok(None) };
    let Some((Message::Go { foreground }, files)) = channel::receive(channel, RecvFlags::empty())? else {
        return Ok(None);
    };
    let stdin = files.first().ok_or(Errno::BADF)?;
    if foreground == Foreground::Take {
        // We are in the background and SIGTTOU is blocked, so this is allowed. A terminal that hung up meanwhile tells
        // the command so itself.
        let _ = tcsetpgrp(stdin, getpid());
    }
    // A runner that outlives the watchdog knows by this which group to end; without a runner there is no command.
    channel::send(&runner, Message::Launched { pid: getpid().as_raw_pid() }, &[])?;
    rustix::stdio::dup2_stdin(stdin)?;
    // The watchdog blocks every signal, and a mask is inherited.
    SigSet::empty().thread_set_mask()?;
    Ok(Some((runner, environment)))
}

fn execute(command: &[OsString], environment: Variables) -> io::Error {
    match command {
        // `exec` also gives SIGPIPE back its default, which our own runtime had set aside.
        [program, arguments @ ..] => Command::new(program).args(arguments).envs(environment).exec(),
        [] => Errno::NOENT.into(),
    }
}

fn errno(error: &io::Error) -> i32 {
    // An argument with a zero byte cannot be passed to us, and every other error has a number.
    error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())
}
