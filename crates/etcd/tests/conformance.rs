//! The conformance suite on real etcd, Debian's: a server alone for each case.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/suite.rs"]
mod suite;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::etcd::{self, Release};

use crate::fixture::Naming;

fn main() -> ExitCode {
    if !etcd::availability().or_skip("conformance") {
        return ExitCode::SUCCESS;
    }
    suite::run_alone(Arguments::from_args(), Release::Debian, Naming::Ours)
}
