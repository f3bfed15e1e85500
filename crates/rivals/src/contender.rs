//! A contender: a process that wants a lock, holds it, and says all the time whether it believes so.
//!
//! It writes lines: `waiting` before it asks for the lock, `granted TOKEN` (`-` if there is none), and from then on
//! `yes` or `no` to the question whether it holds the lock, one each [`ANSWERS_EVERY`]. A program that is not ours
//! believes by running. Lines have the time at which they were read, so no program needs a clock.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::process::Process;
use lockkeeper_faults::{Error, Result, wait};

use crate::measure::Testimony;

/// The pause between two answers of a contender.
pub(crate) const ANSWERS_EVERY: Duration = Duration::from_millis(5);

/// How a contender says what it believes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tells {
    /// By its answers.
    ByAnswers,
    /// By its process, which runs as long as it believes.
    ByRunning,
}

/// One line of a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line {
    Waiting,
    Granted(Option<u64>),
    Answer(bool),
}

impl Line {
    /// Reads a line as our programs write it; others are for readers of the program's output.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line {
            "waiting" => Some(Self::Waiting),
            "yes" => Some(Self::Answer(true)),
            "no" => Some(Self::Answer(false)),
            _ => Some(Self::Granted(line.strip_prefix("granted ")?.parse().ok())),
        }
    }
}

/// What a contender is started with.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) command: Command,
    pub(crate) tells: Tells,
    pub(crate) parse: fn(&str) -> Option<Line>,
}

impl Program {
    /// A program that writes lines as they are described here.
    pub(crate) fn new(command: Command) -> Self {
        Self { command, tells: Tells::ByAnswers, parse: Line::parse }
    }
}

/// Reads the clock by which everything is measured here.
pub(crate) fn now() -> BootInstant {
    SystemClock.now()
}

#[derive(Debug, Default)]
struct Record {
    is_waiting: bool,
    testimony: Testimony,
}

/// A contender that runs; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Contender {
    process: Process,
    tells: Tells,
    record: Arc<Mutex<Record>>,
}

impl Contender {
    /// Starts one, which asks for the lock.
    pub(crate) fn start(program: Program) -> Result<Self> {
        let Program { mut command, tells, parse } = program;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // Its errors, which it goes on after, are for a developer who looks for the reason of a figure.
        if std::env::var_os(SHOW_ERRORS_VARIABLE).is_none_or(|value| value.is_empty()) {
            command.stderr(Stdio::null());
        }
        let mut process = Process::start(command)?;
        let output = process.take_stdout().expect("asked to be piped");
        let record = Arc::new(Mutex::new(Record::default()));
        let heard = Arc::clone(&record);
        // Ends with the process, which closes its output.
        thread::spawn(move || listen(output, tells, parse, &heard));
        Ok(Self { process, tells, record })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        locked(&self.record)
    }

    /// Waits until it asks for the lock.
    pub(crate) async fn waiting(&mut self) -> Result<()> {
        self.until("a contender that waits", wait::PATIENCE, |record| record.is_waiting).await
    }

    /// Waits until it holds the lock.
    pub(crate) async fn granted(&mut self, within: Duration) -> Result<()> {
        self.until("a grant", within, |record| record.testimony.granted.is_some()).await
    }

    /// Whether its process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !self.process.is_running()
    }

    /// Whether it has said no, and not yes again.
    pub(crate) fn is_told(&self) -> bool {
        self.record().testimony.told_at().is_some()
    }

    /// Waits until it has said no for this long.
    pub(crate) async fn told(&mut self, for_long: Duration, within: Duration) -> Result<()> {
        let is_told = |record: &Record| {
            let told_at = record.testimony.told_at();
            told_at.is_some_and(|at| now().saturating_duration_since(at) >= for_long)
        };
        self.until("a holder that was told", within, is_told).await
    }

    async fn until(
        &mut self,
        what: &str,
        within: Duration,
        is_so: impl Fn(&Record) -> bool + Send + Sync,
    ) -> Result<()> {
        let looked = wait::until(what, within, async || {
            let is_so = is_so(&self.record());
            // What has ended says nothing more.
            (is_so || self.has_ended()).then_some(is_so)
        });
        match looked.await? {
            true => Ok(()),
            false => Err(Error::new(format!("{what}: its process has ended"))),
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.pause()?;
        let stopped_at = now();
        self.record().testimony.stopped = Some((stopped_at, stopped_at));
        Ok(())
    }

    /// Lets it go on.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        if let Some((_, went_on_at)) = &mut self.record().testimony.stopped {
            *went_on_at = now();
        }
        self.process.resume()
    }

    /// Returns what was heard of it so far.
    pub(crate) fn testimony(&mut self) -> Testimony {
        let still_believes = self.tells == Tells::ByRunning && !self.has_ended();
        let mut testimony = self.record().testimony.clone();
        if still_believes && testimony.granted.is_some() {
            testimony.answers.push((now(), true));
        }
        testimony
    }
}

/// If set and not empty, what contenders write to their standard error is shown.
const SHOW_ERRORS_VARIABLE: &str = "LOCKKEEPER_RIVALS_ERRORS";

fn locked(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(output: ChildStdout, tells: Tells, parse: fn(&str) -> Option<Line>, record: &Mutex<Record>) {
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        let heard_at = now();
        let mut record = locked(record);
        match parse(&line) {
            Some(Line::Waiting) => record.is_waiting = true,
            Some(Line::Granted(token)) => {
                record.testimony.granted = Some((heard_at, token));
                record.testimony.answers.push((heard_at, true));
            }
            Some(Line::Answer(believes)) => record.testimony.answers.push((heard_at, believes)),
            None => {}
        }
    }
    let mut record = locked(record);
    if tells == Tells::ByRunning && record.testimony.granted.is_some() {
        let ended_at = now();
        record.testimony.answers.extend([(ended_at, true), (ended_at, false)]);
    }
}
