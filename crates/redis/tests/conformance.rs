//! The conformance suite on real Redis, Debian's: a server alone for each case, without persistence.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::redis::{self, Release};

fn main() -> ExitCode {
    if !redis::availability().or_skip("conformance") {
        return ExitCode::SUCCESS;
    }
    suite::run(Arguments::from_args(), Release::Debian, None, false)
}
