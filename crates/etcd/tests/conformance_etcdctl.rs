//! The conformance suite on Debian's etcd, with the names that `etcdctl` gives its contenders: as far as the kinds of
//! lock go that both have.

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
    if !etcd::availability().or_skip("conformance_etcdctl") {
        return ExitCode::SUCCESS;
    }
    alone::run(Arguments::from_args(), Release::Debian, Naming::Etcdctl)
}
