//! The conformance suite on real etcd, Debian's: one server, which all cases share.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/shared.rs"]
mod shared;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::etcd::{self, Release, Server};

fn main() -> ExitCode {
    if !etcd::availability().or_skip("conformance") {
        return ExitCode::SUCCESS;
    }
    let start = async || Server::standalone_of(Release::Debian).await.expect("a server");
    shared::run(Arguments::from_args(), start)
}
