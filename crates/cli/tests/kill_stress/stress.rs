//! Eight runs at a time, until the time is over or something is wrong, and what all of them have shown.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, park_timeout};
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_conformance::{SEED_VARIABLE, seed};
use lockkeeper_faults::{figures, long};
use tempfile::TempDir;

use crate::command::Family;
use crate::judge::{Overlap, Planted, Verdict, judge};
use crate::plan::{LOCKS, Part, Plan, Victim};
use crate::run::{self, Outcome};

/// How long the long run takes.
const LONG: Duration = Duration::from_secs(20 * 60);

/// How many runs there are at once: enough for a queue at each lock, few enough for two cores.
const SLOTS: usize = 8;

/// How often the logs are read and the progress is printed.
const TOLD_EVERY: Duration = Duration::from_secs(15);

/// How long a lock may be in use after everything has ended: what is left ends by itself within the grace.
const FREE_WITHIN: &str = "2m";

/// How many breaches are printed.
const SHOWN_MAX: usize = 10;

/// How long a command whose runner and watchdog were both killed may be there beside the next one: it was killed with
/// them. Judged in the long run, where the machine has nothing else to do.
const BESIDE_MAX: Duration = Duration::from_secs(1);

/// How long such a command may be there once all is over: much longer than a busy machine takes to take it down.
const LEFT_MAX: Duration = Duration::from_secs(10);

/// The pause between two tries of the witness's lock: short beside the longest time that is waited for it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Plays until the time is over, and judges.
pub(crate) fn play() -> Result<(), String> {
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed} cargo test -p lockkeeper-cli --test kill_stress");
    let (locks, logs) = (folder()?, folder()?);
    for lock in 0..LOCKS {
        fs::write(log_of(logs.path(), lock), "").map_err(|error| error.to_string())?;
    }
    let mut report = Report { seed, ..Report::default() };
    let begun_at = SystemClock.now();
    let end = begun_at.saturating_add(long::time(LONG));
    let (next, is_enough) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| -> Result<(), String> {
        let (sender, outcomes) = mpsc::channel();
        for _ in 0..SLOTS {
            let (sender, locks, logs, next, is_enough) = (sender.clone(), locks.path(), logs.path(), &next, &is_enough);
            scope.spawn(move || {
                while !is_enough.load(Ordering::Relaxed) {
                    let plan = Plan::of(seed, next.fetch_add(1, Ordering::Relaxed));
                    let outcome = run::play(&plan, locks, logs);
                    let _ = sender.send((plan, outcome));
                }
            });
        }
        drop(sender);
        report.follow(&outcomes, logs.path(), end, &is_enough)
    })?;
    report.read_logs(logs.path(), LOCKS)?;
    report.all_is_free(locks.path(), logs.path(), FREE_WITHIN);
    let took = SystemClock.now().saturating_duration_since(begun_at).as_secs_f64();
    figures::tell(&format!("kill stress: {} in {took:.0} s", report.in_short()));
    report.verdict()
}

/// What all runs together have shown.
#[derive(Debug, Default)]
struct Report {
    seed: u64,
    runs: usize,
    stops: usize,
    struck: usize,
    /// The runs whose runner and watchdog were both killed.
    both_killed: BTreeSet<u64>,
    wrong: Vec<String>,
    /// What the logs say, one a lock.
    logs: Vec<Verdict>,
}

impl Report {
    /// Takes in the outcomes of runs, prints the progress, and stops new starts when the time is over or something is
    /// wrong.
    fn follow(
        &mut self,
        outcomes: &mpsc::Receiver<(Plan, Outcome)>,
        logs: &Path,
        end: BootInstant,
        is_enough: &AtomicBool,
    ) -> Result<(), String> {
        let mut tell_at = SystemClock.now().saturating_add(TOLD_EVERY);
        for (plan, outcome) in outcomes {
            self.add(&plan, outcome);
            let now = SystemClock.now();
            if now >= tell_at {
                tell_at = now.saturating_add(TOLD_EVERY);
                let read = self.read_logs(logs, LOCKS);
                is_enough.fetch_or(read.is_err(), Ordering::Relaxed);
                read?;
                println!("{:.0} s left: {}", end.saturating_duration_since(now).as_secs_f64(), self.in_short());
            }
            is_enough.fetch_or(now >= end || self.verdict().is_err(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn add(&mut self, plan: &Plan, outcome: Outcome) {
        self.runs += 1;
        self.stops += outcome.stops;
        self.struck += usize::from(outcome.is_struck);
        self.both_killed.extend(outcome.are_both_killed.then_some(plan.number));
        self.wrong.extend(outcome.wrong);
    }

    fn read_logs(&mut self, logs: &Path, locks: usize) -> Result<(), String> {
        let read = |lock| fs::read_to_string(log_of(logs, lock)).map_err(|error| error.to_string());
        self.logs = (0..locks).map(|lock| judge(&read(lock)?)).collect::<Result<_, String>>()?;
        Ok(())
    }

    /// When all runs are over, each lock must be free `within` this time, and by then none of its commands is there.
    fn all_is_free(&mut self, locks: &Path, logs: &Path, within: &str) {
        for lock in 0..self.logs.len() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
            command.args(["run", "-w", within, &format!("lock-{lock}"), "--", "true"]).env("LOCKKEEPER_DIR", locks);
            let ended = command.status();
            if !ended.as_ref().is_ok_and(|status| status.success()) {
                self.wrong.push(format!("lock {lock} is not free within {within}: {ended:?}"));
            }
            // A command is promised to be gone before that, unless its runner and watchdog were both killed.
            let is_beside = self.logs[lock].last.is_some_and(|run| self.both_killed.contains(&run));
            let patience = if is_beside { LEFT_MAX } else { Duration::ZERO };
            if let Err(error) = try_lock_within(&log_of(logs, lock), patience) {
                self.wrong.push(format!("a command of lock {lock} is still there when it is free: {error}"));
            }
        }
    }

    fn in_short(&self) -> String {
        let Self { seed, runs, stops, struck, .. } = self;
        let grants: usize = self.logs.iter().map(|log| log.grants).sum();
        let beside = self.overlaps(true);
        let longest = beside.iter().filter_map(|overlap| overlap.lasted).max().unwrap_or_default();
        format!(
            "{runs} runs, {grants} grants, {struck} struck, {stops} stops, {} violations, seed {seed}; of {} commands \
             whose runner and watchdog were both killed, {} were still on their way out beside the next, {longest:.1?} \
             at most",
            self.breaches().len(),
            self.both_killed.len(),
            beside.len(),
        )
    }

    fn verdict(&self) -> Result<(), String> {
        let breaches = self.breaches();
        let shown = breaches[..breaches.len().min(SHOWN_MAX)].join("\n");
        let told = format!("{} violations, with the seed {}:\n{shown}", breaches.len(), self.seed);
        if breaches.is_empty() { Ok(()) } else { Err(told) }
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

fn log_of(logs: &Path, lock: usize) -> std::path::PathBuf {
    logs.join(format!("lock-{lock}"))
}

fn folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| error.to_string())
}

/// A run whose runner is killed leaves a relative of its command that is killed only after the grace: no fault. What is
/// there when the lock is free is one, unless nothing was promised of it.
pub(crate) fn sees_what_is_left() -> Result<(), String> {
    let (locks, logs) = (folder()?, folder()?);
    let log = log_of(logs.path(), 0);
    fs::write(&log, "").map_err(|error| error.to_string())?;
    let plan = Plan {
        number: 1,
        lock: 0,
        hold: Duration::from_secs(600),
        family: Family::StubbornRelative,
        victim: Victim::Killed(Part::Runner),
        is_after_grant: true,
        strike_after: Duration::ZERO,
        stops: vec![],
    };
    let mut report = Report::default();
    report.add(&plan, run::play(&plan, locks.path(), logs.path()));
    let mut wrongs = |both_killed: &[u64]| {
        report.read_logs(logs.path(), 1)?;
        report.both_killed = both_killed.iter().copied().collect();
        report.all_is_free(locks.path(), logs.path(), "2m");
        Ok::<_, String>(std::mem::take(&mut report.wrong))
    };
    let of_grace = wrongs(&[])?;
    let staying = Planted::start(&log, 2, 0, Duration::from_secs(600), Family::Alone);
    let of_staying = [wrongs(&[])?, wrongs(&[2])?].concat();
    drop(staying);
    let _leaving = Planted::start(&log, 3, 0, LEFT_MAX / 4, Family::Alone);
    let of_leaving = wrongs(&[3])?;
    match (&*of_grace, &*of_staying, &*of_leaving) {
        ([], [_, _], []) => Ok(()),
        wrongs => Err(format!("{wrongs:?}")),
    }
}
