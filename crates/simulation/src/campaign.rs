//! Many seeds on all cores.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::flaw::Flaw;
use crate::world::{Report, run};

/// What many runs have shown.
#[derive(Debug, Default)]
pub struct Campaign {
    /// How many seeds were run.
    pub seeds: u64,
    /// How often a lock was granted.
    pub grants: u64,
    /// How long the runs took together, in the servers' time.
    pub took: Duration,
    /// The runs that have broken a rule, those of the least seeds first.
    pub broken: Vec<Report>,
}

impl fmt::Display for Campaign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, grants, took, broken } = self;
        let hours = took.as_secs_f64() / 3_600.0;
        write!(formatter, "{seeds} seeds, {grants} grants, {hours:.0} hours, {} broke a rule", broken.len())
    }
}

/// How many runs it took to find a flaw, from several seeds on.
#[derive(Debug)]
pub struct Hunt {
    /// The flaw.
    pub flaw: Flaw,
    /// The runs of each hunt, in order; one that found nothing has all that it was allowed.
    pub runs: Vec<u64>,
    /// How many hunts found nothing.
    pub missed: usize,
}

impl fmt::Display for Hunt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flaw, runs, missed } = self;
        let (median, worst) = (runs[runs.len() / 2], runs[runs.len() - 1]);
        write!(formatter, "| {flaw} | {median} | {worst} | {missed} of {} |", runs.len())
    }
}

/// Hunts for a flaw from so many seeds on that are far apart, each for so many runs at most.
///
/// # Panics
///
/// As [`run_all`].
pub fn hunt(flaw: Flaw, hunts: u64, runs_max: u64) -> Hunt {
    let (mut runs, mut missed) = (Vec::new(), 0);
    for number in 0..hunts {
        let from = number << 32;
        let campaign = run_all(from..from + runs_max, Some(flaw), 1);
        missed += usize::from(campaign.broken.is_empty());
        // The others were run at the same time.
        let first = campaign.broken.first().map_or(runs_max, |report| report.plan.seed - from + 1);
        runs.push(first);
    }
    runs.sort_unstable();
    Hunt { flaw, runs, missed }
}

/// Runs the seeds on all cores, until so many of them have broken a rule; those under way are run to their end.
///
/// # Panics
///
/// If the code that is simulated panics; the seed is printed.
pub fn run_all(seeds: Range<u64>, flaw: Option<Flaw>, broken_max: usize) -> Campaign {
    let (next, broken) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let work = || {
        let mut campaign = Campaign::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || broken.load(Ordering::Relaxed) >= broken_max {
                return campaign;
            }
            let report = run(seed, flaw);
            campaign.seeds += 1;
            campaign.grants += report.grants() as u64;
            campaign.took += report.took;
            if !report.violations.is_empty() {
                broken.fetch_add(1, Ordering::Relaxed);
                campaign.broken.push(report);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let campaigns: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no run panics")).collect()
    });
    let mut all = Campaign::default();
    for campaign in campaigns {
        all.seeds += campaign.seeds;
        all.grants += campaign.grants;
        all.took += campaign.took;
        all.broken.extend(campaign.broken);
    }
    all.broken.sort_by_key(|report| report.plan.seed);
    all
}
