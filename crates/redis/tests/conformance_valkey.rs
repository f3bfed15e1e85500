//! The conformance suite on Valkey, a server alone for each case. It is a separate binary, since the long run has all
//! cases and the plain one those about tokens.

#[path = "support/fixture.rs"]
mod fixture;

use std::process::ExitCode;

use lockkeeper_faults::redis::Release;

use crate::fixture::Suite;

fn main() -> ExitCode {
    let plain = Some("token");
    Suite { release: Release::Valkey, plain, ..Suite::DEBIAN }.run("conformance_valkey")
}
