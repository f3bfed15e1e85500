//! `cargo xtask test`: every check of the project, or the long rounds alone, in one run, with one count on the last
//! line.
//!
//! Says which stages there are, and reports at the end. `install` installs what is missing, `harness` runs tests and
//! counts them, `lanes` knows which run beside others, `long` which have long rounds; `dependencies`, `features`,
//! `packages` and `oldest` are a stage each.

use std::process::ExitCode;

use cargo_metadata::Metadata;
use clap::Args;

use crate::cargo::{cargo, metadata, target_folder};
use crate::harness::{Found, Harness, Rounds};
use crate::install::{self, LeftOut, Wish};
use crate::lanes::{Lanes, WORKSPACE_TESTS};
use crate::stages::Stages;
use crate::{dependencies, features, lanes, long, oldest, packages};

/// Options of `cargo xtask test`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Install nothing; without it, what tests use and this machine lacks is installed first: system packages as root
    /// with apt-get, Python packages in the target directory.
    #[arg(long)]
    no_install: bool,
    /// Run the tests that have long rounds, with all their rounds, and nothing else; without it, they play a tenth.
    #[arg(long)]
    long: bool,
    /// Make a skipped test a failure.
    #[arg(long)]
    require_all: bool,
}

/// Runs all stages and prints the report; success only if no stage failed.
pub(crate) fn run(options: &Options) -> ExitCode {
    let mut stages = Stages::default();
    let wish = if options.no_install { Wish::LookOnly } else { Wish::Install };
    let mut left_out = Vec::new();
    stages.run("set-up", || {
        left_out = install::set_up(wish, &target_folder().join("lockkeeper-python"));
        Ok(())
    });
    let workspace = metadata();
    if !options.long {
        check_sources(&mut stages, workspace.as_ref());
    }
    // Tests start these as processes, also across packages, where `cargo test` alone would not build them.
    let built = stages.run("build", || {
        cargo("build --workspace --bins --examples --all-features", &[])?;
        cargo(&format!("{WORKSPACE_TESTS} --no-run"), &[])
    });
    let rounds = if options.long { Rounds::Long } else { Rounds::Short };
    let harness = Harness { rounds, requires_all: options.require_all };
    let mut found = Found::default();
    for (name, lanes) in test_stages(rounds, workspace.as_ref()) {
        if built {
            stages.run(name, || harness.run(&lanes, &mut found));
        } else {
            stages.leave_out(name, "the build failed");
        }
    }
    stages.print();
    if !found.figures.is_empty() {
        println!("\nfigures:");
        found.figures.lines().for_each(|line| println!("  {line}"));
    }
    print_list("left out of the set-up", left_out.iter().map(|LeftOut { what, why }| (what, why)));
    print_list("skipped", found.totals.skipped.iter().map(|skip| (&skip.name, &skip.reason)));
    print!("{}", found.totals.failures);
    println!("\n{}", found.totals);
    if stages.none_failed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The checks of the sources that run no code of theirs.
fn check_sources(stages: &mut Stages, workspace: Result<&Metadata, &String>) {
    stages.run("format", || cargo("fmt --all --check", &[]));
    stages.run("clippy", || cargo("clippy --workspace --all-targets --all-features -- -D warnings", &[]));
    // The libraries' public documentation, as docs.rs shows it: there a link to something private is an error too.
    // Libraries only, since the command's page would overwrite that of the library of the same name.
    let documentation = "doc --workspace --lib --no-deps --all-features";
    stages.run("documentation", || cargo(documentation, &[("RUSTDOCFLAGS", "-D warnings")]));
    stages.run("dependencies", || dependencies::check(workspace.map_err(String::clone)?));
    stages.run("packages", || packages::check(workspace.map_err(String::clone)?));
    stages.run("features", || features::check(workspace.map_err(String::clone)?));
    if oldest::is_installed() {
        stages.run("oldest Rust", oldest::check);
    } else {
        stages.skip("oldest Rust", oldest::missing());
    }
}

/// The stages that run tests, one after the other.
fn test_stages(rounds: Rounds, workspace: Result<&Metadata, &String>) -> Vec<(&'static str, Lanes)> {
    match rounds {
        // Where cargo could not tell of the workspace, the stages before have failed.
        Rounds::Short => vec![
            ("tests", workspace.map_or_else(|_| Lanes::one(WORKSPACE_TESTS.to_owned()), lanes::all)),
            ("feature tests", Lanes { first: workspace.map(features::tests).unwrap_or_default(), ..Lanes::default() }),
        ],
        Rounds::Long => long::stages().map(|name| (name, Lanes::one(long::order(name)))).collect(),
    }
}

/// Prints what did not happen, and why; prints nothing if all happened.
fn print_list<'a>(heading: &str, entries: impl Iterator<Item = (&'a String, &'a String)>) {
    for (index, (what, why)) in entries.enumerate() {
        if index == 0 {
            println!("\n{heading}:");
        }
        println!("  {what}: {why}");
    }
}
