//! The conformance suite on real Redis, Debian's: a server alone for each case, without persistence.

#[path = "support/fixture.rs"]
mod fixture;

use std::process::ExitCode;

use crate::fixture::Suite;

fn main() -> ExitCode {
    Suite::DEBIAN.run("conformance")
}
