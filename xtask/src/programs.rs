//! `cargo xtask bench`, the performance budgets as ratios taken in one run on one machine; `cargo xtask pictures`, the
//! pictures in `docs/pictures` taken anew; `cargo xtask simulate`, runs of the simulation that a seed repeats; and
//! `cargo xtask rivals`, other locks under the same faults.
//!
//! Each builds a crate that ships nothing, and the command that it measures or shows, and runs it. The crate
//! `lockkeeper-bench` knows the groups, the rows and their budgets; `lockkeeper-pictures` which pictures there are.

use std::ffi::OsString;
use std::process::Command;

use clap::Args;

use crate::cargo::{cargo, root, succeeded, target_folder};

/// Where the pictures are kept, from the workspace's root.
const PICTURES: &str = "docs/pictures";

/// Options of `cargo xtask bench`: those of the crate, which `--help` lists.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchOptions {
    /// What the crate is run with: `[--quick] [--json FILE] [--plots FOLDER] [GROUP…]`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Measures, prints, and fails if a budget is not met.
pub(crate) fn bench(options: &BenchOptions) -> Result<(), String> {
    // One after the other: in one build the command would get the features that the crate asks for.
    for package in ["lockkeeper-cli --features monitor", "lockkeeper-bench"] {
        cargo(&format!("build --quiet --release --package {package}"), &[])?;
    }
    run("release/lockkeeper-bench", &options.arguments, "not all rows are met, or not all could be measured")
}

/// Options of `cargo xtask simulate`: those of the crate, which `--help` lists.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct SimulateOptions {
    /// What the crate is run with: `seed SEED [--flaw NAME]` or `seeds COUNT [--from SEED] [--flaw NAME]`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs seeds, and fails if one of them breaks a rule.
pub(crate) fn simulate(options: &SimulateOptions) -> Result<(), String> {
    // For the runtime to follow the seed in all that it chooses, which no build for users does: a folder for itself.
    let folder = target_folder().join("simulation");
    let folder = [("CARGO_TARGET_DIR", &*folder.to_string_lossy()), ("RUSTFLAGS", "--cfg tokio_unstable")];
    cargo("build --quiet --release --package lockkeeper-simulation", &folder)?;
    run("simulation/release/lockkeeper-simulation", &options.arguments, "a rule was broken, or no seed was run")
}

/// Options of `cargo xtask rivals`: those of the crate, which `--help` lists.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct RivalsOptions {
    /// What the crate is run with: `[--rounds COUNT] [--lock TEXT…] [--fault NAME…]`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Puts all locks through all faults, and fails if a round could not be played or Lockkeeper broke a promise.
pub(crate) fn rivals(options: &RivalsOptions) -> Result<(), String> {
    // The whole workspace's features, so that what tests have built is used.
    cargo("build --quiet --workspace --all-features --bin lockkeeper-rivals", &[])?;
    run("debug/lockkeeper-rivals", &options.arguments, "a round failed, or Lockkeeper had two holders")
}

/// Takes all pictures, and fails if one is missing.
pub(crate) fn pictures() -> Result<(), String> {
    // The whole workspace's features, so that what tests have built is used.
    cargo("build --workspace --all-features --bin lockkeeper --bin lockkeeper-pictures", &[])?;
    let arguments = [target_folder().join("debug/lockkeeper"), root().join(PICTURES)].map(OsString::from);
    run("debug/lockkeeper-pictures", &arguments, "not all pictures were taken")
}

fn run(program: &str, arguments: &[OsString], failure: &str) -> Result<(), String> {
    let program = target_folder().join(program);
    let status = Command::new(&program).args(arguments).status();
    succeeded(status.map_err(|error| format!("{}: {error}", program.display()))?)
        .map_err(|error| format!("{failure}: {error}"))
}
