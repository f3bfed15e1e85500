//! A watchdog that stands by: made before the lock is asked for, told what to do once the lock is held.
//!
//! The first one is a fork of this process, made while it has one thread and hardly anything else: executing a program
//! costs several times as much. Later ones, of `--restart`, are this program executed anew, since a process with a
//! runtime must not be forked.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;
use fork::Fork;
use lockkeeper::SafeUntil;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_console::output::say;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use super::group::{Group, say_unseen, stubborn};
use super::watchdog::STUBBORN_MS;
use super::{channel, watchdog};

/// How long a watchdog in waiting may take to see off its launcher and to end, in milliseconds: a thousand times what
/// it takes. One that a debugger keeps from it would take for ever.
const END_MAX_MS: u64 = 1_000;

/// A watchdog that waits for the message to start a command.
#[derive(Debug)]
pub(crate) struct StandBy {
    channel: OwnedFd,
    /// Dropped after the channel, whose end tells it to end.
    watchdog: IdleWatchdog,
}

/// A watchdog that has started nothing, and so ends by itself with its channel; dropping this waits for that, unless
/// the watchdog is taken from it.
#[derive(Debug)]
pub(super) struct IdleWatchdog(Option<Pid>);

impl StandBy {
    /// Forks a watchdog for `command` off this process, which must have a single thread; returns in the runner alone.
    ///
    /// The watchdog inherits what is open: call this before any file is opened that it must not keep open.
    pub(crate) fn fork(command: &[OsString]) -> io::Result<Self> {
        // A caller that ignores SIGCHLD would keep both of us from learning how our children end.
        fork::ensure_waitable_children()?;
        let (ours, theirs) = channel::pair()?;
        match fork::fork()? {
            Fork::Parent(pid) => Ok(Self { watchdog: IdleWatchdog(Pid::from_raw(pid)), channel: ours }),
            Fork::Child => {
                drop(ours);
                let code = match rustix::stdio::dup2_stdin(&theirs) {
                    Ok(()) => {
                        drop(theirs);
                        watchdog::run(command)
                    }
                    Err(error) => watchdog::exit_code(Err(error.into())),
                };
                std::process::exit(code.into())
            }
        }
    }

    /// Executes this program as a watchdog for `command`.
    /// Fails also if `/proc` does not show this program.
    pub(super) fn execute(command: &[OsString]) -> io::Result<Self> {
        let (ours, theirs) = channel::pair()?;
        let watchdog = Command::new("/proc/self/exe")
            .arg0("lockkeeper")
            .arg(watchdog::STEP)
            .args(command)
            .stdin(Stdio::from(theirs))
            .spawn()?;
        Ok(Self { watchdog: IdleWatchdog(Some(Pid::from_child(&watchdog))), channel: ours })
    }

    /// Returns the watchdog and the channel to it; the watchdog is to be dropped last.
    pub(super) fn into_parts(self) -> (IdleWatchdog, OwnedFd) {
        (self.watchdog, self.channel)
    }
}

impl IdleWatchdog {
    /// Returns the watchdog once it was told to begin; the caller then waits for its end.
    pub(super) fn begun(mut self) -> Pid {
        self.0.take().expect("it is taken here alone, with its owner")
    }
}

impl Drop for IdleWatchdog {
    fn drop(&mut self) {
        let Some(watchdog) = self.0 else { return };
        // It must not outlive us, stopped or not.
        let _ = kill_process(watchdog, Signal::CONT);
        if !ends_within(watchdog, Duration::from_millis(END_MAX_MS)) {
            let _ = kill_process(watchdog, Signal::KILL);
        }
        let _ = waitid(WaitId::Pid(watchdog), WaitIdOptions::EXITED);
    }
}

/// Waits for the end of a child of ours; `false` too if that cannot be waited for.
fn ends_within(child: Pid, time: Duration) -> bool {
    let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else { return false };
    let Ok(timeout) = Timespec::try_from(time) else { return false };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut ended, Some(&timeout))).is_ok_and(|ready| ready > 0)
}

/// How often a group whose watchdog died is looked at, in milliseconds.
const LOOK_MS: u64 = 5;

/// A watchdog that has closed the lifeline and has nothing left to do. Dropping this waits until it is gone.
#[derive(Debug)]
pub(crate) struct LeavingWatchdog(Pid);

impl LeavingWatchdog {
    pub(super) const fn of(watchdog: Pid) -> Self {
        Self(watchdog)
    }
}

impl Drop for LeavingWatchdog {
    fn drop(&mut self) {
        // It has nothing left to do, and one that was stopped would not end.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED);
    }
}

/// Kills the processes of a command whose watchdog is dead, and waits until none of them is alive.
pub(super) async fn end_group(group: Group) {
    // Before any process of it is waited for: until then no other process has its number.
    group.kill();
    let start = SystemClock.now();
    let (mut is_said, mut is_unseen_said) = (false, false);
    loop {
        let alive = group.alive();
        if let Err(why) = &alive
            && !std::mem::replace(&mut is_unseen_said, true)
        {
            say_unseen(why);
        }
        if alive.as_ref().map_or(true, Vec::is_empty) {
            group.bury();
            if group.is_empty() {
                return;
            }
        }
        group.kill_strays();
        if !is_said && SystemClock.now().saturating_duration_since(start) > Duration::from_millis(STUBBORN_MS) {
            is_said = true;
            say(&stubborn(&alive.unwrap_or_default()));
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
}

/// What happens to the command when its lock is lost, as the options say it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnLoss {
    /// It is ended before another contender is granted the lock
    Stop,
    /// It goes on, and a line says so
    Warn,
}

/// A command to run under a hold.
pub(crate) struct Supervision {
    /// The watchdog that was made for this command; without one, one is made now.
    pub(crate) stand_by: Option<StandBy>,
    pub(crate) command: Vec<OsString>,
    /// Added to the inherited environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Keeps our place in the queue while it is open; the watchdog closes it when the command is dead.
    pub(crate) lifeline: Option<OwnedFd>,
    /// Tells until when the hold may be believed; asked again and again if it has a deadline.
    pub(crate) safe_until: Box<dyn Fn() -> SafeUntil + Send + Sync>,
    /// How long the command may take to end by itself once it was asked to.
    pub(crate) grace: Duration,
    pub(crate) on_loss: OnLoss,
}

/// The order to give the lock up, and so to end the command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StopOrder {
    /// Why, for a line to be read, without characters that a terminal obeys.
    pub(crate) why: String,
    /// Within which time the command must be dead, if that is shorter than its grace.
    pub(crate) within: Option<Duration>,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) enum CommandOutcome {
    Exited(i32),
    Signaled(i32),
    LockLost(String),
    NotFound(String),
    NotExecutable(String),
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;

    use lockkeeper_faults::wait::PATIENCE;

    use super::*;

    #[test]
    fn a_watchdog_in_waiting_that_does_not_end_with_its_channel_is_killed() {
        // By itself it ends long after the test has given up.
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let (waiting, (sender, dropped)) = (IdleWatchdog(Some(Pid::from_child(&child))), mpsc::channel());
        std::thread::spawn(move || {
            drop(waiting);
            let _ = sender.send(());
        });
        dropped.recv_timeout(PATIENCE).expect("it is killed");
        assert!(child.wait().is_err(), "it was waited for");
    }

    #[test]
    fn a_watchdog_that_was_stopped_on_its_way_out_is_not_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        drop(LeavingWatchdog(pid));
        assert!(child.wait().is_err(), "it was waited for");
    }
}
