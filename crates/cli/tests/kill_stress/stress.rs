//! Eight runs at a time, until the time is over or something is wrong.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_conformance::{SEED_VARIABLE, seed};
use lockkeeper_faults::{figures, long};
use tempfile::TempDir;

use crate::judge::judge;
use crate::plan::{LOCKS, Plan};
use crate::report::Report;
use crate::run::{Outcome, Run};

/// How long the long run takes.
const LONG: Duration = Duration::from_secs(20 * 60);

/// How many runs there are at once: enough for a queue at each lock, few enough for two cores.
const SLOTS: usize = 8;

/// How often the progress is printed.
const TOLD_EVERY: Duration = Duration::from_secs(15);

/// How long a lock may be in use after everything has ended: what is left ends by itself within the grace.
const FREE_WITHIN: &str = "2m";

/// Plays until the time is over, and judges.
pub(crate) fn play() -> Result<(), String> {
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed} cargo test -p lockkeeper-cli --test kill_stress");
    let (locks, logs) = (folder()?, folder()?);
    for lock in 0..LOCKS {
        fs::write(logs.path().join(format!("lock-{lock}")), "").map_err(|error| error.to_string())?;
    }
    let mut report = Report::new(seed);
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
                    let _ = sender.send(Run::start(plan, locks, logs).play());
                }
            });
        }
        drop(sender);
        follow(&outcomes, &mut report, logs.path(), [begun_at, end], &is_enough)
    })?;
    read_logs(&mut report, logs.path())?;
    report.all_is_free(locks.path(), logs.path(), FREE_WITHIN);
    report.took = SystemClock.now().saturating_duration_since(begun_at);
    figures::tell(&report.to_string());
    report.verdict()
}

/// Takes in the outcomes of runs, prints the progress, and stops new starts when the time is over or something is
/// wrong.
fn follow(
    outcomes: &mpsc::Receiver<Outcome>,
    report: &mut Report,
    logs: &Path,
    [begun_at, end]: [BootInstant; 2],
    is_enough: &AtomicBool,
) -> Result<(), String> {
    let mut tell_at = begun_at.saturating_add(TOLD_EVERY);
    for outcome in outcomes {
        report.add(&outcome);
        let now = SystemClock.now();
        if now >= tell_at {
            tell_at = now.saturating_add(TOLD_EVERY);
            let read = read_logs(report, logs);
            is_enough.fetch_or(read.is_err(), Ordering::Relaxed);
            read?;
            let (gone, whole) = (now.saturating_duration_since(begun_at), end.saturating_duration_since(begun_at));
            println!("{:.0} s of {:.0} s: {}", gone.as_secs_f64(), whole.as_secs_f64(), report.in_short());
        }
        if now >= end || report.verdict().is_err() {
            is_enough.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn read_logs(report: &mut Report, logs: &Path) -> Result<(), String> {
    let read = |lock| fs::read_to_string(logs.join(format!("lock-{lock}"))).map_err(|error| error.to_string());
    report.logs = (0..LOCKS).map(|lock| judge(&read(lock)?)).collect::<Result<_, String>>()?;
    Ok(())
}

fn folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| error.to_string())
}
