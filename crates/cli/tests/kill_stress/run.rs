//! One run of `lockkeeper run`, with what its plan does to it.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::wait::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::command::PART;
use crate::plan::{Part, Plan, Victim};

/// How long a watchdog leaves a command between asking and killing.
const GRACE: &str = "100ms";

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether the victim was there to be struck; of two, one of them.
    pub(crate) is_struck: bool,
    /// Whether runner and watchdog were both there and killed.
    pub(crate) are_both_killed: bool,
    /// How many processes were stopped.
    pub(crate) stops: usize,
    /// What went wrong, in words.
    pub(crate) wrong: Option<String>,
}

/// What is done to a run.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Strike,
    Stop(usize),
    Continue(usize),
}

/// A run under way.
struct Run {
    process: Process,
    runner: OwnedFd,
    stdout: ChildStdout,
    command: Option<OwnedFd>,
    watchdog: Option<OwnedFd>,
}

/// Starts a run whose command writes into the log of its lock, a file in `logs`, and does to it what is planned, until
/// it and its command are gone. It may take as long as anything may: eight wait at most, each holds and stands still
/// for less than a second.
pub(crate) fn play(plan: &Plan, locks: &Path, logs: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let mut run = Run::start(plan, locks, logs);
    if let Err(wrong) = run.meets(plan, &mut outcome) {
        outcome.wrong = Some(format!("{wrong}: {plan:?}"));
    }
    run.process.kill();
    outcome
}

impl Run {
    fn start(plan: &Plan, locks: &Path, logs: &Path) -> Self {
        let lock = format!("lock-{}", plan.lock);
        let mut command = process::command(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["run", "--quiet", "--grace", GRACE, &lock, "--"]);
        command.arg(std::env::current_exe().expect("a test knows its program")).arg(PART).arg(logs.join(lock));
        command.args([plan.number.to_string(), plan.hold.as_millis().to_string(), plan.family.name().to_owned()]);
        command.env("LOCKKEEPER_DIR", locks).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(command).expect("setpriv was looked for");
        let runner = opened(&process.id().to_string()).expect("a child that was not waited for");
        let stdout = process.take_stdout().expect("piped");
        Self { process, runner, stdout, command: None, watchdog: None }
    }

    /// Does what is planned; the error says what is wrong with how it ended.
    fn meets(&mut self, plan: &Plan, outcome: &mut Outcome) -> Result<(), String> {
        if plan.is_after_grant {
            self.hear(plan.number)?;
        }
        let mut deeds = vec![(plan.strike_after, Deed::Strike)];
        for (number, stop) in plan.stops.iter().enumerate() {
            deeds.extend([(stop.after, Deed::Stop(number)), (stop.after + stop.lasting, Deed::Continue(number))]);
        }
        deeds.sort_by_key(|(after, _)| *after);
        let mut stopped: Vec<_> = plan.stops.iter().map(|_| None).collect();
        let begun_at = SystemClock.now();
        for (after, deed) in deeds {
            let due = begun_at.saturating_add(after);
            if is_ready(&self.runner, due.saturating_duration_since(SystemClock.now())) {
                break;
            }
            match deed {
                Deed::Strike => {
                    let strikes = self.strike(plan.victim);
                    outcome.is_struck = strikes.contains(&true);
                    outcome.are_both_killed = strikes == [true, true];
                }
                Deed::Stop(number) => {
                    let found = self.find(plan.stops[number].part);
                    stopped[number] = found.filter(|process| pidfd_send_signal(process, Signal::STOP).is_ok());
                    outcome.stops += usize::from(stopped[number].is_some());
                }
                Deed::Continue(number) => go_on(stopped[number].as_ref()),
            }
        }
        // What is stopped goes on, so that the watchdog can do what it has to do.
        stopped.iter().for_each(|process| go_on(process.as_ref()));
        self.ends(outcome.is_struck, plan.number)
    }

    /// Waits for the end of all.
    fn ends(&mut self, is_struck: bool, number: u64) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let status = runtime.block_on(self.process.exited(PATIENCE)).map_err(|error| error.to_string())?;
        if self.command.is_none() {
            self.hear(number)?;
        }
        if self.command.as_ref().is_some_and(|command| !is_ready(command, PATIENCE)) {
            return Err("the command lives long after its runner has ended".to_owned());
        }
        match status.code() {
            Some(0) => Ok(()),
            _ if is_struck => Ok(()),
            other => Err(format!("it ended with {other:?}, and it was not struck")),
        }
    }

    /// Waits until its command says that it has the lock, and its process, or until there is no command.
    fn hear(&mut self, number: u64) -> Result<(), String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut bytes = [0; 64];
            if !is_ready(&self.stdout, PATIENCE) {
                return Err("it neither has the lock nor is it over".to_owned());
            }
            match self.stdout.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Ok(()),
                Ok(length) => line.extend_from_slice(&bytes[..length]),
            }
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["granted", command, watchdog] = words[..] else { return Err(format!("the command said {line:?}")) };
        // Each may be gone already, and its number given to another process: opened first, looked at then.
        self.command = opened(command).filter(|_| is_command(command, &number.to_string()));
        self.watchdog = opened(watchdog).filter(|_| parent_of(watchdog) == Some(self.process.id()));
        Ok(())
    }

    /// Strikes the victim; tells for each process of it whether it was there.
    fn strike(&self, victim: Victim) -> Vec<bool> {
        let signal = if victim == Victim::Asked { Signal::TERM } else { Signal::KILL };
        // All are found before the first is struck.
        let found: Vec<_> = victim.parts().into_iter().map(|part| self.find(part)).collect();
        let strike = |process: OwnedFd| pidfd_send_signal(process, signal).is_ok();
        found.into_iter().map(|process| process.is_some_and(strike)).collect()
    }

    /// A process of this run, if it is there.
    fn find(&self, part: Part) -> Option<OwnedFd> {
        let known = match part {
            Part::Runner => Some(&self.runner),
            Part::Watchdog => self.watchdog.as_ref(),
            Part::Command => self.command.as_ref(),
        };
        if let Some(known) = known {
            return known.try_clone().ok();
        }
        // Nothing was heard yet: by kinship, which still holds after it was opened.
        let runner = self.process.id();
        let watchdog = child_of(runner)?;
        let found = if part == Part::Watchdog { watchdog } else { child_of(watchdog)? };
        let process = opened(&found.to_string())?;
        let is_kin = parent_of(&watchdog.to_string()) == Some(runner)
            && (part == Part::Watchdog || parent_of(&found.to_string()) == Some(watchdog));
        is_kin.then_some(process)
    }
}

/// Has a process go on that was stopped, if it is still there.
fn go_on(process: Option<&OwnedFd>) {
    let _ = process.map(|process| pidfd_send_signal(process, Signal::CONT));
}

/// Waits until there is something to read, or a process has ended.
fn is_ready(file: &impl AsFd, within: Duration) -> bool {
    let deadline = SystemClock.now().saturating_add(within);
    loop {
        let left = deadline.saturating_duration_since(SystemClock.now());
        let timeout = Timespec::try_from(left).expect("less than an age");
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&timeout)) {
            Err(_) if !left.is_zero() => {}
            ready => return ready.is_ok_and(|count| count > 0),
        }
    }
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
