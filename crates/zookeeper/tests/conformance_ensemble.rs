//! The conformance suite on real Apache ZooKeeper: an ensemble of three.

mod support;

use std::process::ExitCode;

use support::fixture::{Service, run};

fn main() -> ExitCode {
    run("conformance_ensemble", Service::ensemble)
}
