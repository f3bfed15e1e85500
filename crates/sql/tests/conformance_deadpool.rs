//! The conformance suite on real PostgreSQL over a pool of deadpool with three connections, which no client keeps: each
//! case has a server alone while it runs. The long run has all cases, the plain one those about waiters, who look here.

#[path = "support/pools.rs"]
mod pools;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_faults::long;

use crate::pools::{POOLED, deadpool};
use crate::suite::Kind;

/// What the names of the cases have in them that the plain run has.
const PLAIN: &str = "waiter";

fn main() -> ExitCode {
    let kind = Kind::Pool(|server| deadpool(&[server], POOLED));
    suite::run(env!("CARGO_CRATE_NAME"), kind, (!long::is_asked_for()).then_some(PLAIN))
}
