//! The conformance suite on real Apache ZooKeeper: one server alone.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/sniff.rs"]
mod sniff;

use std::process::ExitCode;

use fixture::{Service, run};

fn main() -> ExitCode {
    run("conformance", Service::standalone)
}
