//! The conformance suite on Debian's Redis with `layout=setnx`: as far as the kinds of lock go that plain locks have.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::redis::{self, Release};

fn main() -> ExitCode {
    if !redis::availability().or_skip("conformance_setnx") {
        return ExitCode::SUCCESS;
    }
    suite::run(Arguments::from_args(), Release::Debian, None, true)
}
