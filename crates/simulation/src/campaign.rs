//! Many seeds on all cores.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Runs the seeds on so many threads, until so many of them have broken a rule.
///
/// # Panics
///
/// If the code that is simulated panics; the seed is printed.
pub fn run_all(seeds: Range<u64>, threads: usize, flaw: Option<Flaw>, broken_max: usize) -> Campaign {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut campaign = Campaign::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || campaign.broken.len() >= broken_max {
                return campaign;
            }
            let report = run(seed, flaw);
            campaign.seeds += 1;
            campaign.grants += report.grants() as u64;
            campaign.took += report.took;
            if !report.violations.is_empty() {
                campaign.broken.push(report);
            }
        }
    };
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
