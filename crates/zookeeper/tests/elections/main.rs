//! Elections whose leaders are killed, stopped and cut off, on a real ensemble of three servers.
//!
//! Several elections go on side by side. Each has three campaigners, which are separate processes with separate
//! proxies. In each round the leader of an election is struck, another must lead within the promised time, and the one
//! that was struck joins again. Every campaigner says until when it believes itself to lead, and all of them use one
//! clock; their messages are compared at the end.
//!
//! The tests judge the same rounds, which are played once: fifty of each fault in `cargo xtask test --long`, a tenth
//! otherwise.

mod account;
mod campaigner;
mod contest;
mod plan;
mod report;

use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_faults::zookeeper;

use crate::report::Report;

/// Says what is wrong with the rounds played, if anything is.
type Judge = fn(&Report) -> Result<(), String>;

fn main() -> ExitCode {
    if let Some(ended) = campaigner::live_as_one() {
        return ended;
    }
    let arguments = Arguments::from_args();
    let tests: [(&str, Judge); 4] = [
        ("no_two_lead_at_once_by_what_they_believe", Report::no_two_led),
        ("another_leads_in_time_when_the_leader_is_killed_stopped_or_cut_off", Report::another_led_in_time),
        ("tokens_grow_from_leader_to_leader", Report::tokens_grew),
        ("leaders_believed_until_they_are_told_would_be_seen_to_lead_at_once", Report::believers_would_be_seen),
    ];
    let trials = tests.map(|(name, judge)| Trial::test(name, move || judged(name, judge)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn judged(name: &str, judge: Judge) -> Result<(), Failed> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    if !zookeeper::availability().or_skip(name) {
        return Ok(());
    }
    let report = REPORT.get_or_init(report::play).as_ref();
    Ok(report.map_err(Clone::clone).and_then(judge)?)
}
