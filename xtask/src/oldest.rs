//! The oldest Rust that works, which the manifests state as `rust-version`: having it, and compiling with it.
//!
//! Only rustup offers it, and not every machine can fetch a toolchain. Where it cannot be had, the set-up lists it as
//! left out, and the stage is skipped and says so. That fails no run, not even one that requires all.

use std::process::{Command, Stdio};

use crate::cargo::{at_root, succeeded};
use crate::install::{LeftOut, Wish, is_there};

/// The `rust-version` of the workspace, which all its crates inherit.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Installs the toolchain if it is missing; answers why it is left out.
pub(crate) fn set_up(wish: Wish) -> Option<LeftOut> {
    if is_installed() {
        println!("Rust {OLDEST}, the oldest that works, is there");
        return None;
    }
    println!("missing: Rust {OLDEST} (the oldest that works, to compile with)");
    let outcome = obstacle(wish, is_there("rustup")).map_or_else(install, Err);
    outcome.err().map(|why| LeftOut { what: format!("Rust {OLDEST}"), why })
}

/// Whether the toolchain is there.
pub(crate) fn is_installed() -> bool {
    let mut command = rustup(&["run", OLDEST, "rustc", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Compiles all that has no tests in it with the oldest Rust.
pub(crate) fn check() -> Result<(), String> {
    // What stands on sqlx needs the Rust that sqlx needs.
    let order = ["run", OLDEST, "cargo", "check", "--workspace", "--exclude", "lockkeeper-sqlx", "--all-features"];
    println!("rustup {}", order.join(" "));
    run(at_root(rustup(&order)))
}

/// Why the stage is skipped.
pub(crate) fn missing() -> String {
    format!("Rust {OLDEST} is not installed: rustup toolchain install {OLDEST} --profile minimal")
}

/// Why the toolchain cannot be installed here, with the cure; `None` if it can.
fn obstacle(wish: Wish, has_rustup: bool) -> Option<String> {
    match (wish, has_rustup) {
        (_, false) => Some("there is no rustup here, which alone offers it".to_owned()),
        (Wish::LookOnly, true) => Some(format!("not installed, as --no-install says; {}", missing())),
        (Wish::Install, true) => None,
    }
}

fn install() -> Result<(), String> {
    let order = ["toolchain", "install", OLDEST, "--profile", "minimal", "--no-self-update"];
    run(rustup(&order)).map_err(|why| format!("rustup {} failed: {why}", order.join(" ")))
}

fn run(mut command: Command) -> Result<(), String> {
    command.status().map_err(|error| format!("rustup could not be started: {error}")).and_then(succeeded)
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(arguments).stdin(Stdio::null());
    command
}
