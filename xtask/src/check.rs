//! `cargo xtask check`: what is checked of the sources without running the product: format, lints, documentation,
//! dependencies, packages, sets of features, and the rules of the source tree.

use std::process::ExitCode;

use crate::cargo::{cargo, metadata};
use crate::pool::{Found, Job, Pool};
use crate::stages::Stages;
use crate::tiers::Tier;
use crate::{dependencies, features, packages};

/// Runs all stages and prints the report; success only if no stage failed.
pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    let workspace = metadata();
    let workspace = workspace.as_ref().map_err(String::clone);
    stages.run("format", || cargo("fmt --all --check", &[]));
    stages.run("clippy", || cargo("clippy --workspace --all-targets --all-features -- -D warnings", &[]));
    // The libraries' public documentation, as docs.rs shows it: there a link to something private is an error too.
    // Libraries only, since the command's page would overwrite that of the library of the same name.
    let documentation = "doc --workspace --lib --no-deps --all-features";
    stages.run("documentation", || cargo(documentation, &[("RUSTDOCFLAGS", "-D warnings")]));
    stages.run("dependencies", || dependencies::check(workspace.clone()?));
    stages.run("packages", || packages::check(workspace.clone()?));
    stages.run("features", || features::check(features::SETS));
    let mut found = Found::default();
    let own = vec![Job::Cargo("xtask", "test --package xtask --no-fail-fast".to_owned())];
    let pool = Pool { tier: Tier::All, requires_all: false, is_verbose: false };
    stages.run("rules", || pool.run(own, &mut found));
    stages.finish(&found)
}
