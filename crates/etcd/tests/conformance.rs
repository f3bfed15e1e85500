//! The conformance suite on real etcd, Debian's: one server, which all cases share.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/operator.rs"]
mod operator;
#[path = "support/shared.rs"]
mod shared;

use std::process::ExitCode;

use lockkeeper_faults::etcd::{Release, Server};

fn main() -> ExitCode {
    shared::run("conformance", Release::Debian, None, Server::standalone)
}
