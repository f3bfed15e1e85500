//! The conformance suite on real MariaDB: a server alone for each case.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/server.rs"]
mod server;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    suite::run(env!("CARGO_CRATE_NAME"), None)
}
