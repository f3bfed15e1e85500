//! The foreground group of the terminal: the command's group while it runs in front, the runner's while it is stopped.
//!
//! The command stands in a separate process group, so that it can be ended as a whole; a process outside of the
//! terminal's foreground group cannot read from the terminal. The terminal is lent before the command starts if stdin
//! and stdout are the terminal. Otherwise we are likely one end of a pipeline, whose other members would lose it; then
//! it is lent when the command asks for it, which the kernel shows by stopping it.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;

use nix::sys::signal::SigSet;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};
use tokio::signal::unix::{self, SignalKind};

use super::channel::Foreground;
use super::processes::{self, Process, ProcessLife};
use crate::signals::catch;

/// The terminal of this session, if it has one.
pub(super) struct Terminal {
    device: Option<OwnedFd>,
    /// Our group; `None` if its leader is outside our namespace: then we leave the terminal to the processes outside.
    ours: Option<Pid>,
    /// Its modes when we started.
    modes: Option<Termios>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok();
        let modes = device.as_ref().and_then(|device| tcgetattr(device).ok());
        Self { device, ours: our_group(), modes }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.device.is_some()
    }

    /// Tells whether the command gets the terminal before it starts.
    pub(super) fn at_start(&self) -> Foreground {
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        if self.is_ours() && tcgetpgrp(stdin).ok() == self.ours && isatty(stdout) {
            Foreground::Take
        } else {
            Foreground::Leave
        }
    }

    fn is_ours(&self) -> bool {
        self.ours.is_some() && self.foreground() == self.ours
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.device.as_ref()?).ok()
    }

    /// Tells whether `group` has the terminal.
    pub(super) fn is_lent_to(&self, group: Pid) -> bool {
        self.foreground() == Some(group)
    }

    /// Gives the terminal to `group` if we have it to give; tells whether it was given.
    pub(super) fn lend(&self, group: Pid) -> bool {
        match &self.device {
            Some(device) if self.is_ours() => tcsetpgrp(device, group).is_ok(),
            _ => false,
        }
    }

    /// Takes the terminal back from `group` if it has it. SIGTTOU must be blocked.
    pub(super) fn take_back(&self, group: Pid) {
        if let (Some(device), Some(ours)) = (&self.device, self.ours)
            && self.is_lent_to(group)
        {
            // Fails if the terminal has hung up; then there is nothing to take.
            let _ = tcsetpgrp(device, ours);
        }
    }

    /// Restores the modes that a command may have changed and had no time to restore.
    pub(super) fn restore_modes(&self) {
        if let (Some(device), Some(modes)) = (&self.device, &self.modes)
            && self.is_ours()
        {
            let _ = tcsetattr(device, OptionalActions::Drain, modes);
        }
    }
}

/// Tells whether this is a terminal and our group is the one in its foreground.
pub(crate) fn in_foreground(terminal: impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| our_group() == Some(foreground))
}

/// Returns our group; `None` if its leader is outside our namespace, where it has no number that we could use.
fn our_group() -> Option<Pid> {
    // The system call answers 0 then, which rustix does not expect.
    Pid::from_raw(nix::unistd::getpgrp().as_raw())
}

/// Whether a process is there to continue us once we are stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum JobControl {
    /// A shell that gets its prompt back and can continue us.
    Shell,
    /// No process: the kernel would not stop such a group either.
    NoProcess,
}

/// Stops our whole job as the terminal would have, had the command been in our group; returns once it is continued.
///
/// Without a process table of our namespace a shell cannot be seen, and counts as absent.
///
/// This process cannot cause an error here.
pub(crate) fn stop_job() -> io::Result<JobControl> {
    let (Ok(table), Some(ours)) = (processes::all(), our_group()) else { return Ok(JobControl::NoProcess) };
    if job_control(&table, ours) == JobControl::NoProcess {
        return Ok(JobControl::NoProcess);
    }
    // All in one call, and by the one stop signal that we do not catch: a shell that sees another member stop may
    // continue the group at once. If we were stopped after that, no process would continue us.
    kill_process_group(ours, Signal::STOP)?;
    Ok(JobControl::Shell)
}

/// The kernel's rule for an orphaned group: no member has a parent in the same session outside the group.
fn job_control(table: &[Process], group: Pid) -> JobControl {
    let has_outer_parent = |process: &Process| {
        process.parent.and_then(|parent| table.iter().find(|other| other.pid == parent)).is_some_and(|parent| {
            parent.group != Some(group) && parent.session.is_some() && parent.session == process.session
        })
    };
    let mut members = table.iter().filter(|process| process.group == Some(group) && process.life == ProcessLife::Alive);
    if members.any(has_outer_parent) { JobControl::Shell } else { JobControl::NoProcess }
}

/// Passed on to the command as they come.
const PASSED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::TSTP];

/// Those that end a command unless it handles them; the watchdog confirms that it has passed them on.
pub(super) const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// The signals that this process receives from now on instead of being ended or stopped by them.
pub(super) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        // Taking the terminal back from the background, or a line of ours there, must not stop us.
        let mut mask = SigSet::empty();
        mask.add(nix::sys::signal::Signal::SIGTTOU);
        mask.thread_block()?;

        let mut streams = vec![(Signal::CONT, unix::signal(SignalKind::from_raw(Signal::CONT.as_raw()))?)];
        for signal in PASSED_ON {
            streams.extend(catch(signal)?.map(|stream| (signal, stream)));
        }
        Ok(Self { streams })
    }

    /// Waits for the next one. Several of a kind may come as one, as with the kernel.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}
