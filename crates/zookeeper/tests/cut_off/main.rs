//! A holder whose server is cut off from its peers, on a real ensemble in network namespaces.
//!
//! The server goes on answering the holder's pings for a while, and the ensemble ends the session meanwhile: a rule
//! that takes an answered ping or a recent write for a proof lets two clients hold the lock. In each round a holder of
//! the library and a bare one, kept by the test itself, are connected to the same server. Right after an acknowledged
//! write of each, the server is cut off from its peers, and a second client waits on their side. Until when the first
//! believes itself is compared with when the second is granted the lock, on one clock. The bare holder's session shows
//! what other rules would have believed on the very same exchanges, which proves that the test can see two holders.
//!
//! The three tests judge the same rounds, which are played once: fifty in `cargo xtask test --long`, a tenth otherwise.

mod bare;
mod holder;
mod ledger;
mod plan;
mod report;
mod rival;
mod round;
mod tap;

use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_faults::{namespaces, zookeeper};

use crate::report::Report;

/// Says what is wrong with the rounds played, if anything is.
type Judge = fn(&Report) -> Result<(), String>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Judge); 3] = [
        ("a_holder_cut_off_with_its_server_has_ended_before_the_next_is_granted", Report::library_never_shared),
        ("rules_that_trust_pings_or_the_last_write_let_two_hold_at_once", Report::naive_rules_shared),
        ("the_anchor_lets_no_two_hold_on_the_same_exchanges", Report::anchor_never_shared),
    ];
    let trials = tests.map(|(name, judge)| Trial::test(name, move || judged(name, judge)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn judged(name: &str, judge: Judge) -> Result<(), Failed> {
    static REPORT: OnceLock<Result<Report, String>> = OnceLock::new();
    if !zookeeper::availability().and(namespaces::availability).or_skip(name) {
        return Ok(());
    }
    let report = REPORT.get_or_init(report::play).as_ref();
    Ok(report.map_err(Clone::clone).and_then(judge)?)
}
