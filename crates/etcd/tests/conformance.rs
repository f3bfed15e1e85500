//! The conformance suite on real etcd, Debian's: a server alone for each case.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::etcd::{self, Release};

use crate::fixture::Naming;

fn main() -> ExitCode {
    if !etcd::availability().or_skip("conformance") {
        return ExitCode::SUCCESS;
    }
    alone::run(Arguments::from_args(), Release::Debian, Naming::Ours)
}
