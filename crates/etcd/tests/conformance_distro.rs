//! The conformance suite on etcd 3.5.1: one server, which all cases share. It is a separate binary, since the long run
//! has all cases and the plain one those about tokens.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/shared.rs"]
mod shared;

use std::process::ExitCode;

use lockkeeper_conformance::Arguments;
use lockkeeper_faults::etcd::{self, Release, Server};
use lockkeeper_faults::long;

/// What the names of the cases have in them that the plain run has.
const PLAIN: &str = "token";

fn main() -> ExitCode {
    if !etcd::availability_of(Release::Distro).or_skip("conformance_distro") {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    if !long::is_asked_for() {
        arguments.filter.get_or_insert_with(|| PLAIN.to_owned());
    }
    let start = async || Server::standalone_of(Release::Distro).await.expect("a server");
    shared::run(arguments, start)
}
