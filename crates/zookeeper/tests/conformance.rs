//! The conformance suite on real Apache ZooKeeper: one server alone.

mod support;

use std::process::ExitCode;

use support::fixture::{Service, run};

fn main() -> ExitCode {
    run("conformance", Service::standalone)
}
