//! What all runs together have shown, and how it is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::process::Command;
use std::thread::park_timeout;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_faults::long;

use crate::command::Family;
use crate::judge::{Overlap, Planted, Verdict, judge};
use crate::plan::{Moment, Plan, Victim};
use crate::run::{Outcome, Run};

/// How many breaches are printed.
const SHOWN_MAX: usize = 10;

/// How long a command whose runner and watchdog were both killed may be there beside the next one: it was killed with
/// them. Judged in the long run, where the machine has nothing else to do.
const BESIDE_MAX: Duration = Duration::from_secs(1);

/// How long such a command may be there once all is over: much longer than a busy machine takes to take it down.
const LEFT_MAX: Duration = Duration::from_secs(10);

/// The pause between two tries of the witness's lock: short beside the longest time that is waited for it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct Report {
    seed: u64,
    runs: usize,
    stops: usize,
    /// How many were struck, and how many of them when they had been granted the lock.
    struck: BTreeMap<Victim, [usize; 2]>,
    /// The runs whose runner and watchdog were both killed.
    both_killed: BTreeSet<u64>,
    wrong: Vec<String>,
    /// What the logs say, one a lock.
    pub(crate) logs: Vec<Verdict>,
    pub(crate) took: Duration,
}

impl Report {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.stops += outcome.stops;
        if outcome.is_struck {
            let [all, granted] = self.struck.entry(outcome.plan.victim).or_default();
            *all += 1;
            *granted += usize::from(outcome.is_granted);
        }
        if outcome.are_both_killed {
            self.both_killed.insert(outcome.plan.number);
        }
        self.wrong.extend(outcome.wrong.clone());
    }

    /// When all runs are over, each lock must be free `within` this time, and by then none of its commands is there.
    pub(crate) fn all_is_free(&mut self, locks: &Path, logs: &Path, within: &str) {
        for lock in 0..self.logs.len() {
            let name = format!("lock-{lock}");
            let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
            command.args(["run", "-w", within, &name, "--", "true"]).env("LOCKKEEPER_DIR", locks);
            match command.status() {
                Ok(status) if status.success() => {}
                other => self.wrong.push(format!("{name} is not free within {within}: {other:?}")),
            }
            // A command is promised to be gone before that, unless its runner and watchdog were both killed.
            let is_beside = self.logs[lock].last.is_some_and(|run| self.both_killed.contains(&run));
            let patience = if is_beside { LEFT_MAX } else { Duration::ZERO };
            if let Err(error) = try_lock_within(&logs.join(&name), patience) {
                self.wrong.push(format!("a command of {name} is still there when the lock is free: {error}"));
            }
        }
    }

    /// Returns the progress, as a part of a line.
    pub(crate) fn in_short(&self) -> String {
        let struck: usize = self.struck.values().map(|[all, _]| all).sum();
        let (runs, grants, breaches) = (self.runs, self.grants(), self.breaches().len());
        format!("{runs} runs, {grants} grants, {struck} struck, {} stops, {breaches} violations", self.stops)
    }

    pub(crate) fn verdict(&self) -> Result<(), String> {
        let breaches = self.breaches();
        if !breaches.is_empty() {
            let shown = breaches[..breaches.len().min(SHOWN_MAX)].join("\n");
            return Err(format!("{} violations, with the seed {}:\n{shown}", breaches.len(), self.seed));
        }
        Ok(())
    }

    fn grants(&self) -> usize {
        self.logs.iter().map(|log| log.grants).sum()
    }

    fn breaches(&self) -> Vec<String> {
        let too_long =
            |overlap: &Overlap| long::is_asked_for() && overlap.lasted.is_some_and(|lasted| lasted > BESIDE_MAX);
        let overlaps = self.overlaps(false).into_iter().chain(self.overlaps(true).into_iter().filter(too_long));
        let overlaps = overlaps.map(|overlap| format!("two held at once: {overlap:?}"));
        let stale = self.logs.iter().flat_map(|log| log.stale_tokens.iter().cloned());
        overlaps.chain(stale).chain(self.wrong.iter().cloned()).collect()
    }

    /// The overlaps over a run whose runner and watchdog were both killed, which exclusion does not cover, or the
    /// others.
    fn overlaps(&self, is_excused: bool) -> Vec<Overlap> {
        let over_both = |overlap: &Overlap| overlap.over.is_some_and(|over| self.both_killed.contains(&over));
        let overlaps = self.logs.iter().flat_map(|log| log.overlaps.iter().copied());
        overlaps.filter(|overlap| over_both(overlap) == is_excused).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stale: usize = self.logs.iter().map(|log| log.stale_tokens.len()).sum();
        writeln!(f, "kill stress: {} in {:.0} s, seed {}", self.in_short(), self.took.as_secs_f64(), self.seed)?;
        for (victim, [all, granted]) in &self.struck {
            writeln!(f, "  {victim:?}: {all}, {granted} of them holding or later")?;
        }
        let gap = self.logs.iter().map(|log| log.longest_gap).max().unwrap_or_default();
        writeln!(
            f,
            "  two at once: {}; tokens that did not grow: {stale}; else: {}",
            self.overlaps(false).len(),
            self.wrong.len()
        )?;
        let (beside, [_, granted]) =
            (self.overlaps(true), self.struck.get(&Victim::BothKilled).copied().unwrap_or_default());
        let longest = beside.iter().filter_map(|overlap| overlap.lasted).max().unwrap_or_default();
        writeln!(
            f,
            "  of {granted} commands whose runner and watchdog were both killed, {} were still on their way out beside \
             the next, {:.1} ms at most",
            beside.len(),
            longest.as_secs_f64() * 1e3
        )?;
        writeln!(f, "  longest time from one grant of a lock to the next: {:.2} s", gap.as_secs_f64())
    }
}

/// Takes the witness's lock for a moment, which no command may have by then.
fn try_lock_within(log: &Path, patience: Duration) -> Result<(), TryLockError> {
    let log = File::open(log).map_err(TryLockError::Error)?;
    let deadline = SystemClock.now().saturating_add(patience);
    loop {
        match log.try_lock() {
            Err(TryLockError::WouldBlock) if SystemClock.now() < deadline => park_timeout(LOOK_AGAIN_AFTER),
            tried => return tried,
        }
    }
}

/// A run whose runner is killed leaves a relative of its command that is killed only after the grace: no fault. What is
/// there when the lock is free is one, unless nothing was promised of it.
pub(crate) fn sees_what_is_left() -> Result<(), String> {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let [locks, logs] = folders.each_ref().map(|folder| folder.path());
    let log = logs.join("lock-0");
    fs::write(&log, "").map_err(|error| error.to_string())?;
    let plan = Plan {
        number: 1,
        lock: 0,
        hold: Duration::from_secs(600),
        family: Family::StubbornRelative,
        victim: Victim::RunnerKilled,
        strike_at: Moment::Granted(Duration::ZERO),
        stops: vec![],
    };
    let mut report = Report::new(0);
    report.add(&Run::start(plan, locks, logs).play());
    let mut wrongs = |both_killed: &[u64]| {
        report.logs = vec![judge(&fs::read_to_string(&log).map_err(|error| error.to_string())?)?];
        report.both_killed = both_killed.iter().copied().collect();
        report.all_is_free(locks, logs, "2m");
        Ok::<_, String>(std::mem::take(&mut report.wrong))
    };
    let of_grace = wrongs(&[])?;
    let mut staying = Planted::start(&log, 2, 0, Duration::from_secs(600), Family::Alone);
    staying.is_granted();
    let of_staying = [wrongs(&[])?, wrongs(&[2])?].concat();
    staying.kill_command();
    let mut leaving = Planted::start(&log, 3, 0, LEFT_MAX / 4, Family::Alone);
    leaving.is_granted();
    let of_leaving = wrongs(&[3])?;
    match (&*of_grace, &*of_staying, &*of_leaving) {
        ([], [_, _], []) => Ok(()),
        wrongs => Err(format!("{wrongs:?}")),
    }
}
