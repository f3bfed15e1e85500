//! `cargo xtask bench`: the performance budgets, as ratios taken in one run on one machine.
//!
//! Builds the crate `lockkeeper-bench`, and the command that it measures beside itself, and runs it with the options
//! given here. It knows the groups, the rows and their budgets.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::cargo::{succeeded, target_folder};

/// Options of `cargo xtask bench`: those of the crate, which `--help` lists.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// What the crate is run with: `[--quick] [--json FILE] [--plots FOLDER] [GROUP…]`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Measures, prints, and fails if a budget is not met.
pub(crate) fn run(options: &Options) -> ExitCode {
    match build_and_run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build_and_run(options: &Options) -> Result<(), String> {
    // One after the other: in one build the command would get the features that the crate asks for.
    for package in ["lockkeeper-cli", "lockkeeper-bench"] {
        let build = ["build", "--quiet", "--release", "--package", package];
        let status = Command::new(env!("CARGO")).args(build).status().map_err(|error| error.to_string())?;
        succeeded(status).map_err(|error| format!("the release build of {package} failed: {error}"))?;
    }
    let program = target_folder().join("release/lockkeeper-bench");
    let status = Command::new(&program).args(&options.arguments).status();
    succeeded(status.map_err(|error| format!("{}: {error}", program.display()))?)
        .map_err(|error| format!("not all rows are met, or not all could be measured: {error}"))
}
