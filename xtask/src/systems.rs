//! The systems other than Linux that the library is for: whether it compiles there. Nothing is linked or run.
//!
//! The targets come from rustup, and not every machine can fetch them. Where they cannot be had, the stage is skipped
//! and says so. TLS needs a C compiler for the target, and is left out where there is none.

use std::env;
use std::process::{Command, Stdio};

use crate::cargo::{at_root, cargo};
use crate::install::is_there;

/// The features of the facade beside its default ones and TLS: all services, and what adds to them.
const FEATURES: &[&str] = &[
    "deadpool-postgres",
    "etcd",
    "fence-mysql",
    "fence-postgres",
    "history",
    "http",
    "metrics",
    "mysql",
    "postgres",
    "redis",
    "serde",
];

/// How long rustup may take to fetch the targets, in seconds: 60 MB, or the news that the server is not reached.
const FETCH_MAX_S: &str = "60";

struct System {
    target: &'static str,
    /// What compiles there.
    packages: &'static [&'static str],
    /// The C compiler that is taken for it unless the environment names another one; none has a usual name on Linux for
    /// Apple's systems.
    compiler: Option<&'static str>,
}

const SYSTEMS: [System; 2] = [
    System {
        target: "aarch64-apple-darwin",
        packages: &["lockkeeper", "lockkeeper-conformance", "lockkeeper-zk-server"],
        compiler: None,
    },
    System {
        target: "x86_64-pc-windows-gnu",
        packages: &["lockkeeper", "lockkeeper-conformance"],
        compiler: Some("x86_64-w64-mingw32-gcc"),
    },
];

/// Fetches the targets that are missing; answers why there are none here.
pub(crate) fn set_up() -> Option<String> {
    if !is_there("rustup") {
        return Some("there is no rustup here, which has the targets".to_owned());
    }
    let targets = SYSTEMS.map(|System { target, .. }| target);
    let mut command = Command::new("timeout");
    command.args([FETCH_MAX_S, "rustup", "--quiet", "target", "add"]).args(targets);
    let fetched = at_root(command).stdin(Stdio::null()).stderr(Stdio::null()).status();
    let is_here = fetched.is_ok_and(|status| status.success());
    let why = || format!("within {FETCH_MAX_S} s this did not succeed: rustup target add {}", targets.join(" "));
    (!is_here).then(why)
}

/// Compiles for each system, as far as types go. Warnings are errors.
pub(crate) fn check() -> Result<(), String> {
    let fails = |system: &&System| cargo(&order(system, has_compiler(system)), &[]).is_err();
    let failed: Vec<&str> = SYSTEMS.iter().filter(fails).map(|system| system.target).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// What is asked of cargo. Clippy checks as `cargo check` does, and denies warnings without building the dependencies
/// anew.
fn order(system: &System, has_compiler: bool) -> String {
    let packages: String = system.packages.iter().map(|package| format!(" --package {package}")).collect();
    let tls = if has_compiler { ",lockkeeper/tls" } else { "" };
    let features = format!("lockkeeper/{}{tls}", FEATURES.join(",lockkeeper/"));
    format!("clippy{packages} --lib --features {features} --target {} -- -D warnings", system.target)
}

/// Whether there is a C compiler for the target; says so if there is none.
fn has_compiler(System { target, compiler, .. }: &System) -> bool {
    let variable = format!("CC_{}", target.replace('-', "_"));
    let found = env::var_os(&variable).is_some() || compiler.is_some_and(is_there);
    if !found {
        let name = compiler.map(|compiler| format!(" ({compiler})")).unwrap_or_default();
        println!("TLS is left out for {target}: there is no C compiler for it{name}, and {variable} names none");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::metadata;

    #[test]
    fn every_feature_of_the_library_is_checked_for_other_systems_but_tls_only_with_a_compiler() {
        let workspace = metadata().expect("cargo metadata reads the workspace");
        let facade = workspace.packages.iter().find(|package| package.name == "lockkeeper").expect("it is a member");
        let is_checked = |feature: &String| FEATURES.contains(&feature.as_str()) || feature == "tls";
        let left: Vec<_> = facade.features["full"].iter().filter(|feature| !is_checked(feature)).collect();
        assert_eq!(left, facade.features["default"].iter().collect::<Vec<_>>());
        let orders = [false, true].map(|has_compiler| order(&SYSTEMS[1], has_compiler));
        assert_eq!(orders.map(|order| order.contains(",lockkeeper/tls ")), [false, true]);
    }
}
