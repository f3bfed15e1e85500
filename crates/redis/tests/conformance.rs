//! The conformance suite on real Redis, Debian's: a server alone for each case, without persistence.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use crate::suite::Suite;

fn main() -> ExitCode {
    Suite::DEBIAN.run("conformance")
}
