//! The conformance suite on real MariaDB: each case has a server alone while it runs.

#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use crate::suite::Kind;

fn main() -> ExitCode {
    suite::run(env!("CARGO_CRATE_NAME"), Kind::Mariadb, None)
}
