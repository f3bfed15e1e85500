//! The conformance suite on real PostgreSQL behind PgBouncer, which lends a connection for each transaction: each
//! case has a server alone while it runs. The long run has all cases, the plain one those about waiters, who look here.

#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_faults::long;

use crate::suite::Kind;

/// What the names of the cases have in them that the plain run has.
const PLAIN: &str = "waiter";

fn main() -> ExitCode {
    suite::run(env!("CARGO_CRATE_NAME"), Kind::PgBouncer, (!long::is_asked_for()).then_some(PLAIN))
}
