//! No rule is broken in any of very many runs, and each flaw that is planted is found.

use lockkeeper_conformance::seed;
use lockkeeper_faults::{figures, long};
use lockkeeper_simulation::campaign::run_all;
use lockkeeper_simulation::flaw::Flaw;

/// How many seeds the long run has. `cargo xtask simulate seeds 1000000` has more.
const SEEDS: u32 = 5_000;

/// How many runs are looked through for a flaw that they show often.
const FOUND_WITHIN: u64 = 2_000;

/// How many runs are looked through for one that they show once in hundreds or thousands.
const RARE_FOUND_WITHIN: u64 = 20_000;

#[test]
fn no_rule_is_broken_under_faults_of_network_machines_and_server() {
    // Far from those of other runs.
    let from = seed() >> 8;
    let seeds = u64::from(long::rounds(SEEDS));
    let campaign = run_all(from..from + seeds, None, 1);
    if let Some(report) = campaign.broken.first() {
        panic!("again: cargo xtask simulate seed {}\n{report}", report.plan.seed);
    }
    figures::tell(&format!("simulation: {campaign}"));
    assert!(campaign.grants > seeds, "only {} grants", campaign.grants);
}

#[test]
fn each_planted_flaw_is_found() {
    let rare = if long::is_asked_for() { Flaw::RARE } else { &[] };
    let common = Flaw::COMMON.iter().map(|&flaw| (flaw, FOUND_WITHIN));
    let sought = common.chain(rare.iter().map(|&flaw| (flaw, RARE_FOUND_WITHIN)));
    let missed: Vec<_> = sought.filter(|&(flaw, within)| !is_found(flaw, within)).collect();
    assert_eq!(missed, [], "not found within so many runs");
}

fn is_found(flaw: Flaw, within: u64) -> bool {
    let campaign = run_all(0..within, Some(flaw), 1);
    let found = campaign.broken.first();
    if let Some(report) = found {
        println!("{flaw}: {:?} after {} runs", report.violations[0], campaign.seeds);
    }
    found.is_some()
}
