//! `cargo xtask pictures`: the pictures in `docs/pictures`, taken anew.
//!
//! Builds the command with all that is shown, and the crate `lockkeeper-pictures`, and runs that. It knows which
//! pictures there are.

use std::process::{Command, ExitCode};

use crate::cargo::{cargo, root, succeeded, target_folder};

/// Where they are kept, from the workspace's root.
const FOLDER: &str = "docs/pictures";

/// Takes all pictures, and fails if one is missing.
pub(crate) fn run() -> ExitCode {
    match build_and_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pictures: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build_and_run() -> Result<(), String> {
    // The whole workspace's features, so that what tests have built is used.
    cargo("build --workspace --all-features --bin lockkeeper --bin lockkeeper-pictures", &[])?;
    let built = |name: &str| target_folder().join("debug").join(name);
    let program = built("lockkeeper-pictures");
    let status = Command::new(&program).args([built("lockkeeper"), root().join(FOLDER)]).status();
    succeeded(status.map_err(|error| format!("{}: {error}", program.display()))?)
        .map_err(|error| format!("not all pictures were taken: {error}"))
}
