//! The conformance suite on real Redis, Debian's: a server alone for each case, which keeps a log of its writes (AOF)
//! and has nothing else after a restart.

#[path = "support/fixture.rs"]
mod fixture;

use std::process::ExitCode;

use lockkeeper_faults::redis::Flush;

use crate::fixture::Suite;

fn main() -> ExitCode {
    Suite { log: Some(Flush::Always), ..Suite::DEBIAN }.run("conformance_aof")
}
