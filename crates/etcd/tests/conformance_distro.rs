//! The conformance suite on etcd 3.5.1: one server, which all cases share. It is a separate binary, since the long run
//! has all cases and the plain one those about tokens.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/shared.rs"]
mod shared;

use std::process::ExitCode;

use lockkeeper_faults::etcd::{Release, Server};

fn main() -> ExitCode {
    let start = async || Server::standalone_of(Release::Distro).await;
    shared::run("conformance_distro", Release::Distro, Some("token"), start)
}
