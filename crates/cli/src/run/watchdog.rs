//! Starts the command, and ends it when the runner dies or the hold runs out.
//!
//! It stands in a separate process group, next to the command's: a signal to the command's group does not reach it, and
//! neither does one to the runner's job. It blocks every signal that can be blocked. Orphans of the command become its
//! children instead of those of process 1, so it sees the group become empty even where process 1 waits for no child.
//! It decides nothing about the lock, and uses no runtime: it is part of each command's start.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use lockkeeper::SafeUntil;
use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_console::output::say;
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getpid, set_child_subreaper, setpgid, wait, waitid,
};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::channel::{self, CommandEnd, EndCause, Foreground, Message};
use super::ending::{EndingProgress, EndingStep, Situation, decide};
use super::group::{Group, WATCHDOG_NAME, say_unseen, stubborn};
use super::launcher::{FAILED, Launcher};
use super::processes::Process;
use super::terminal::ENDING;

/// The first argument that makes this binary the watchdog.
pub(super) const STEP: &str = "__watchdog";

/// How often a group that is ending is looked at, in milliseconds: the next holder may wait too long by this much.
const LOOK_MS: u32 = 10;

/// After how long a group that was killed and is still there is worth a line, in milliseconds.
pub(super) const STUBBORN_MS: u64 = 2_000;

/// Watches over the command `command`; stdin is the channel to the runner. Returns the exit code.
pub(super) fn run(command: &[OsString]) -> u8 {
    exit_code(start(command))
}

/// Returns the exit code of a watchdog that has ended so, and says what failed.
pub(super) fn exit_code(result: io::Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        // The process that started it is gone, and no other needs the message.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => FAILED,
        Err(error) => {
            say(&format!("a step of `lockkeeper run`, which only it can start, failed: {error}"));
            FAILED
        }
    }
}

fn start(command: &[OsString]) -> io::Result<()> {
    SigSet::all().thread_block()?;
    setpgid(None, None)?;
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_name(WATCHDOG_NAME)?;
    let runner = rustix::stdio::stdin();
    let launcher = Launcher::start(command);
    // A runner that does not get the lock ends without a message.
    let Some(environment) = channel::receive_environment(runner)? else {
        launcher.into_iter().for_each(Launcher::end);
        return Ok(());
    };
    let mut safe_until = SafeUntil::ProcessEnd;
    loop {
        match channel::receive(runner, RecvFlags::empty())? {
            Some((Message::SafeUntil(until), _)) => safe_until = until,
            Some((Message::Begin { grace, foreground }, files)) => {
                let situation = Situation { safe_until, grace, must_end: false, progress: EndingProgress::Running };
                return match Watchdog::launch(launcher, &environment, files, foreground, situation) {
                    Ok(watchdog) => watchdog.watch(),
                    Err(error) => channel::send(
                        runner,
                        Message::NotLaunched { errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()) },
                        &[],
                    ),
                };
            }
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => return Ok(()),
        }
    }
}

struct Watchdog {
    /// `None` once the runner is gone.
    runner: Option<BorrowedFd<'static>>,
    /// Keeps the place in the queue until this process ends.
    lifeline: Option<OwnedFd>,
    /// Readable when a child has ended or stopped.
    children: SignalFd,
    alarm: BootAlarm,
    group: Group,
    situation: Situation,
    /// How the command ended, once it has.
    end: Option<CommandEnd>,
    /// Whether the command was waited for, so that nothing but its group's members keeps its number from being reused.
    is_reaped: bool,
    /// When the group was killed and whether a line said that this did not help.
    killed: Option<(BootInstant, bool)>,
    /// Whether a line said that processes are out of sight.
    is_unseen_said: bool,
}

impl Watchdog {
    fn launch(
        launcher: io::Result<Launcher>,
        environment: &[(OsString, OsString)],
        files: Vec<OwnedFd>,
        foreground: Foreground,
        situation: Situation,
    ) -> io::Result<Self> {
        let mut files = files.into_iter();
        let stdin = files.next().ok_or(Errno::BADF)?;
        let mut mask = SigSet::empty();
        mask.add(nix::sys::signal::Signal::SIGCHLD);
        let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let alarm = BootAlarm::new()?;
        let leader = launcher?.go(environment, foreground, &stdin)?;
        Ok(Self {
            runner: Some(rustix::stdio::stdin()),
            lifeline: files.next(),
            children,
            alarm,
            group: Group::led_by(leader),
            situation,
            end: None,
            is_reaped: false,
            killed: None,
            is_unseen_said: false,
        })
    }

    /// Runs until the command has ended, and if it was to end, all of its processes.
    fn watch(mut self) -> io::Result<()> {
        loop {
            // All messages of the runner come before a decision: a renewal may lie behind an old deadline.
            self.hear_runner();
            self.look_at_children()?;
            self.act()?;
            if let Some(end) = self.end {
                if self.is_over() {
                    return self.report(end);
                }
            } else {
                // The command itself may be what cannot be killed.
                self.say_if_stubborn(|group| group.alive().unwrap_or_default());
            }
            self.rest()?;
        }
    }

    fn hear_runner(&mut self) {
        while let Some(runner) = self.runner {
            match channel::receive(runner, RecvFlags::DONTWAIT) {
                Ok(Some((Message::SafeUntil(safe_until), _))) => self.situation.safe_until = safe_until,
                Ok(Some((Message::Signal(number), _))) => self.pass_on(number),
                Ok(Some((Message::End { within }, _))) => {
                    self.situation.must_end = true;
                    self.situation.grace = self.situation.grace.min(within);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    say("the runner is gone; ending the command");
                    self.runner = None;
                    self.situation.must_end = true;
                }
            }
        }
    }

    fn pass_on(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        self.group.signal(signal);
        if ENDING.contains(&signal) {
            // A stopped process would not see it before it is continued.
            self.group.signal(Signal::CONT);
            self.tell(Message::PassedOn);
        }
    }

    fn tell(&self, message: Message) {
        if let Some(runner) = self.runner {
            // If the runner is gone, that is noticed where its messages are read.
            let _ = channel::send(runner, message, &[]);
        }
    }

    fn look_at_children(&mut self) -> io::Result<()> {
        while self.children.read_signal()?.is_some() {}
        let leader = WaitId::Pid(self.group.leader());
        if self.end.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Some(status) = waitid(leader, options)? {
                self.end = Some(end(status.exit_status(), status.terminating_signal()));
            } else if let Some(status) = stopped(self.group.leader())? {
                self.tell(Message::Stopped { signal: status.stopping_signal().unwrap_or(0) });
            }
        }
        if self.situation.progress == EndingProgress::Running {
            self.bury_orphans();
        }
        Ok(())
    }

    /// Waits for orphans that have ended, so that a command that leaves many does not fill the process table.
    fn bury_orphans(&mut self) {
        while self.end.is_none()
            && let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG)
        {
            if pid == self.group.leader() {
                self.is_reaped = true;
                self.end = Some(end(status.exit_status(), status.terminating_signal()));
            }
        }
    }

    fn act(&mut self) -> io::Result<()> {
        loop {
            let now = SystemClock.now();
            match decide(&self.situation, now) {
                EndingStep::Ask => {
                    if !self.situation.must_end {
                        say("the lock was not renewed in time; ending the command");
                    }
                    self.group.ask_to_end();
                    self.situation.progress = EndingProgress::Asked { at: now };
                }
                EndingStep::Kill => {
                    self.group.kill();
                    self.situation.progress = EndingProgress::Killed;
                    self.killed = Some((now, false));
                }
                EndingStep::Wait(moment) => return self.alarm.set(moment),
            }
        }
    }

    /// Tells, once the command has ended, whether nothing is left that must be waited for.
    fn is_over(&mut self) -> bool {
        if self.situation.progress == EndingProgress::Running {
            // Processes that a command leaves in the background after its own end are left alone.
            return true;
        }
        match self.group.alive() {
            Ok(alive) if alive.is_empty() => {
                self.reap();
                self.group.is_empty()
            }
            Ok(alive) => {
                if self.situation.progress == EndingProgress::Killed {
                    self.group.kill_strays();
                }
                self.say_if_stubborn(|_| alive);
                false
            }
            Err(why) => {
                if !std::mem::replace(&mut self.is_unseen_said, true) {
                    say_unseen(&why);
                }
                self.is_reaped = true;
                self.group.bury();
                let is_empty = self.group.is_empty();
                if !is_empty {
                    self.say_if_stubborn(|_| Vec::new());
                }
                is_empty
            }
        }
    }

    /// Says once that the group is still there long after it was killed, and what is `alive` of it.
    fn say_if_stubborn(&mut self, alive: impl FnOnce(Group) -> Vec<Process>) {
        if let Some((since, is_said @ false)) = &mut self.killed
            && SystemClock.now().saturating_duration_since(*since) > Duration::from_millis(STUBBORN_MS)
        {
            *is_said = true;
            say(&stubborn(&alive(self.group)));
        }
    }

    fn reap(&mut self) {
        if !self.is_reaped {
            let _ = waitid(WaitId::Pid(self.group.leader()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            self.is_reaped = true;
        }
    }

    fn report(mut self, end: CommandEnd) -> io::Result<()> {
        self.reap();
        // Before the message, so that a runner that has received it finds the place free but for its own hold.
        match self.lifeline.take() {
            // We must remove what the runner has left: its lock's name may never be used again.
            Some(lifeline) if self.runner.is_none() => lockkeeper::end_place(lifeline),
            lifeline => drop(lifeline),
        }
        let cause =
            if self.situation.progress == EndingProgress::Running { EndCause::Itself } else { EndCause::Watchdog };
        self.tell(Message::Ended { end, cause });
        Ok(())
    }

    fn rest(&self) -> io::Result<()> {
        let mut wakers = vec![
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.alarm.as_fd(), PollFlags::IN),
        ];
        wakers.extend(self.runner.map(|runner| PollFd::from_borrowed_fd(runner, PollFlags::IN)));
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_MS) * 1_000_000 };
        let timeout = (self.situation.progress != EndingProgress::Running).then_some(&look);
        match poll(&mut wakers, timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn end(code: Option<i32>, signal: Option<i32>) -> CommandEnd {
    code.map_or_else(|| CommandEnd::Signaled(signal.unwrap_or(0)), CommandEnd::Exited)
}

/// Tells whether a child was stopped since this was last asked.
fn stopped(child: Pid) -> io::Result<Option<WaitIdStatus>> {
    match waitid(WaitId::Pid(child), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
        // To a caller who asks for stops alone, a child that has just ended does not exist. Its end is reported by its
        // signal.
        Err(Errno::CHILD) => Ok(None),
        outcome => Ok(outcome?),
    }
}

/// Becomes readable when its moment has come.
#[derive(Debug)]
pub(super) struct BootAlarm {
    timer: OwnedFd,
    set_for: Option<BootInstant>,
}

impl BootAlarm {
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Self { timer, set_for: None })
    }

    /// Sets it for a moment, or for none; a moment in the past is now.
    ///
    /// This process cannot cause an error here.
    pub(super) fn set(&mut self, moment: Option<BootInstant>) -> io::Result<()> {
        if self.set_for == moment {
            return Ok(());
        }
        // All zero means "not set", so a moment at boot is moved by a nanosecond.
        let nanos = moment.map_or(0, |moment| moment.as_nanos().max(1));
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).expect("2^64 ns are fewer than 2^63 s"),
            tv_nsec: i64::try_from(nanos % 1_000_000_000).expect("less than 10^9"),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: value })?;
        self.set_for = moment;
        Ok(())
    }
}

impl AsFd for BootAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_has_just_ended_was_not_stopped_and_is_still_a_child() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(stopped(pid).unwrap().is_none());
        assert!(child.wait().unwrap().success());
    }
}
