//! The conformance suite on real Redis, Debian's: a server alone for each case, which keeps a log of its writes (AOF)
//! and has nothing else after a restart.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::redis::{self, Flush, Release};

fn main() -> ExitCode {
    if !redis::availability().or_skip("conformance_aof") {
        return ExitCode::SUCCESS;
    }
    suite::run(Arguments::from_args(), Release::Debian, Some(Flush::Always), false)
}
