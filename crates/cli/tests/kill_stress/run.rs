//! One run of `lockkeeper run`, with what its plan does to it.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::wait::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::command::PART;
use crate::plan::{Moment, Part, Plan, Victim};

/// How long a run may take from its start: eight wait at most, each holds and stands still for less than a second.
const RUN_MAX: Duration = PATIENCE;

/// How long a command may live on when its runner is gone: the grace, and what a busy machine needs.
const COMMAND_GONE_WITHIN: Duration = PATIENCE;

/// How long a watchdog leaves a command between asking and killing.
const GRACE: &str = "100ms";

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// The exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) is_granted: bool,
    /// Whether the victim was there to be struck; of two, one of them.
    pub(crate) is_struck: bool,
    /// Whether runner and watchdog were both there and killed.
    pub(crate) are_both_killed: bool,
    /// How many processes were stopped.
    pub(crate) stops: usize,
    /// What went wrong, in words.
    pub(crate) wrong: Option<String>,
}

/// What is still to be done.
#[derive(Debug)]
enum Deed {
    Strike,
    Stop(Part, Duration),
    Continue(OwnedFd),
}

/// When.
#[derive(Clone, Copy, Debug)]
enum Due {
    Planned(Moment),
    At(BootInstant),
}

/// A run under way.
pub(crate) struct Run {
    process: Process,
    runner: OwnedFd,
    stdout: Option<ChildStdout>,
    line: Vec<u8>,
    begun_at: BootInstant,
    granted_at: Option<BootInstant>,
    command: Option<OwnedFd>,
    watchdog: Option<OwnedFd>,
    pending: Vec<(Due, Deed)>,
    outcome: Outcome,
}

impl Run {
    /// Starts a run whose command writes into the log of its lock, a file in `logs`.
    pub(crate) fn start(plan: Plan, locks: &Path, logs: &Path) -> Self {
        let lock = format!("lock-{}", plan.lock);
        let mut command = process::command(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["run", "--quiet", "--grace", GRACE, &lock, "--"]);
        command.arg(std::env::current_exe().expect("a test knows its program")).arg(PART).arg(logs.join(lock));
        command.args([plan.number.to_string(), plan.hold.as_millis().to_string(), plan.family.name().to_owned()]);
        command.env("LOCKKEEPER_DIR", locks).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(command).expect("setpriv was looked for");
        let runner = pidfd_open(pid_of(&process), PidfdFlags::empty()).expect("a child that was not waited for");
        let stops = plan.stops.iter().map(|stop| (Due::Planned(stop.at), Deed::Stop(stop.part, stop.lasting)));
        let pending = stops.chain([(Due::Planned(plan.strike_at), Deed::Strike)]).collect();
        let stdout = process.take_stdout();
        let outcome = Outcome {
            plan,
            code: None,
            is_granted: false,
            is_struck: false,
            are_both_killed: false,
            stops: 0,
            wrong: None,
        };
        Self {
            process,
            runner,
            stdout,
            line: Vec::new(),
            begun_at: SystemClock.now(),
            granted_at: None,
            command: None,
            watchdog: None,
            pending,
            outcome,
        }
    }

    /// Does to it what is planned, until it and its command are gone.
    pub(crate) fn play(mut self) -> Outcome {
        let too_late = self.begun_at.saturating_add(RUN_MAX);
        while !self.step(too_late) {
            if SystemClock.now() >= too_late {
                self.is_wrong(format!("not over {RUN_MAX:?} after it was started"));
                break;
            }
        }
        // A stopped process goes on, so that the watchdog can do what it has to do.
        self.pending.drain(..).for_each(|(_, deed)| {
            if let Deed::Continue(process) = deed {
                let _ = pidfd_send_signal(process, Signal::CONT);
            }
        });
        self.process.kill();
        if let Some(command) = &self.command
            && !ends(command, COMMAND_GONE_WITHIN)
        {
            self.is_wrong(format!("the command lives {COMMAND_GONE_WITHIN:?} after its runner ended"));
        }
        self.outcome
    }

    /// Waits for the next thing to happen or to be done, and does it; returns whether the run has ended.
    fn step(&mut self, too_late: BootInstant) -> bool {
        let next = self.pending.iter().enumerate().filter_map(|(index, (due, _))| Some((self.time_of(*due)?, index)));
        let next = next.min();
        let now = SystemClock.now();
        if let Some((_, index)) = next.filter(|(due, _)| *due <= now) {
            let (_, deed) = self.pending.swap_remove(index);
            self.perform(deed);
            return false;
        }
        let until = next.map_or(too_late, |(due, _)| due.min(too_late));
        let mut watched = vec![PollFd::new(&self.runner, PollFlags::IN)];
        watched.extend(self.stdout.as_ref().map(|stdout| PollFd::new(stdout, PollFlags::IN)));
        let timeout = Timespec::try_from(until.saturating_duration_since(now)).expect("less than an age");
        if poll(&mut watched, Some(&timeout)).is_err() {
            return false;
        }
        let (is_over, is_said) = (is_ready(&watched[0]), watched.get(1).is_some_and(is_ready));
        if is_said {
            self.listen();
        }
        if is_over {
            self.is_over();
        }
        is_over
    }

    fn time_of(&self, due: Due) -> Option<BootInstant> {
        match due {
            Due::At(time) => Some(time),
            Due::Planned(Moment::Started(after)) => Some(self.begun_at.saturating_add(after)),
            Due::Planned(Moment::Granted(after)) => Some(self.granted_at?.saturating_add(after)),
        }
    }

    /// Learns from the command that it has the lock, and its process id.
    fn listen(&mut self) {
        let mut bytes = [0; 64];
        match self.stdout.as_mut().expect("it was ready").read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.stdout = None,
            Ok(length) => self.line.extend_from_slice(&bytes[..length]),
        }
        if !self.line.ends_with(b"\n") {
            return;
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["granted", command, watchdog] = words.as_slice() else {
            return self.is_wrong(format!("the command said {line:?}"));
        };
        self.stdout = None;
        self.outcome.is_granted = true;
        self.granted_at = Some(SystemClock.now());
        // Each may be gone already, and its number given to another process: opened first, looked at then.
        let (number, runner) = (self.outcome.plan.number.to_string(), self.process.id());
        self.command = opened(command).filter(|_| is_command(command, &number));
        self.watchdog = opened(watchdog).filter(|_| parent_of(watchdog) == Some(runner));
    }

    fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Strike => {
                let strikes = self.strike();
                self.outcome.is_struck = strikes.contains(&true);
                self.outcome.are_both_killed = strikes == [true, true];
            }
            Deed::Stop(part, lasting) => {
                if let Some(process) = self.find(part)
                    && pidfd_send_signal(&process, Signal::STOP).is_ok()
                {
                    self.outcome.stops += 1;
                    let until = SystemClock.now().saturating_add(lasting);
                    self.pending.push((Due::At(until), Deed::Continue(process)));
                }
            }
            Deed::Continue(process) => {
                let _ = pidfd_send_signal(process, Signal::CONT);
            }
        }
    }

    /// Strikes the victim; tells for each process of it whether it was there.
    fn strike(&self) -> Vec<bool> {
        let send = |part, signal| self.find(part).is_some_and(|process| pidfd_send_signal(process, signal).is_ok());
        match self.outcome.plan.victim {
            Victim::NoProcess => vec![],
            Victim::Asked => vec![send(Part::Runner, Signal::TERM)],
            Victim::RunnerKilled => vec![send(Part::Runner, Signal::KILL)],
            Victim::WatchdogKilled => vec![send(Part::Watchdog, Signal::KILL)],
            Victim::CommandKilled => vec![send(Part::Command, Signal::KILL)],
            Victim::BothKilled => {
                let watchdog = self.find(Part::Watchdog);
                let runner = send(Part::Runner, Signal::KILL);
                vec![runner, watchdog.is_some_and(|watchdog| pidfd_send_signal(watchdog, Signal::KILL).is_ok())]
            }
        }
    }

    /// A process of this run, if it is there.
    fn find(&self, part: Part) -> Option<OwnedFd> {
        let known = match part {
            Part::Runner => return self.runner.try_clone().ok(),
            Part::Watchdog => self.watchdog.as_ref(),
            Part::Command => self.command.as_ref(),
        };
        if let Some(known) = known {
            return known.try_clone().ok();
        }
        // Nothing was read yet: by kinship, which still holds after it was opened.
        let runner = self.process.id();
        let watchdog = child_of(runner)?;
        let found = if part == Part::Watchdog { watchdog } else { child_of(watchdog)? };
        let process = opened(&found.to_string())?;
        let is_kin = parent_of(&watchdog.to_string()) == Some(runner)
            && (part == Part::Watchdog || parent_of(&found.to_string()) == Some(watchdog));
        is_kin.then_some(process)
    }

    fn is_over(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        self.outcome.code = match runtime.block_on(self.process.exited(RUN_MAX)) {
            Ok(status) => status.code(),
            Err(error) => return self.is_wrong(error.to_string()),
        };
        if !self.outcome.is_struck && self.outcome.code != Some(0) {
            self.is_wrong(format!("it ended with {:?}, and it was not struck", self.outcome.code));
        }
    }

    fn is_wrong(&mut self, what: String) {
        let plan = &self.outcome.plan;
        self.outcome.wrong.get_or_insert_with(|| format!("{what}: {plan:?}"));
    }
}

fn pid_of(process: &Process) -> Pid {
    Pid::from_raw(process.id().cast_signed()).expect("a process has a number")
}

fn is_ready(watched: &PollFd<'_>) -> bool {
    !watched.revents().is_empty()
}

fn opened(pid: &str) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.parse().ok()?)?, PidfdFlags::empty()).ok()
}

/// Whether a process is the command of that run.
fn is_command(pid: &str, number: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.get(1) == Some(&PART.as_bytes()) && words.get(3) == Some(&number.as_bytes())
}

fn parent_of(pid: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn child_of(parent: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|pid| parent_of(pid) == Some(parent)).find_map(|pid| pid.parse().ok())
}

/// Waits for the end of a process.
fn ends(process: &OwnedFd, within: Duration) -> bool {
    let deadline = SystemClock.now().saturating_add(within);
    loop {
        let left = deadline.saturating_duration_since(SystemClock.now());
        let timeout = Timespec::try_from(left).expect("less than an age");
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) if left.is_zero() => return false,
            Err(_) => {}
        }
    }
}
