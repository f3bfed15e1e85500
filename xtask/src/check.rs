//! `cargo xtask check`: what is checked of the sources without running the product: format, lints, documentation,
//! dependencies, packages, sets of features, other systems, and the rules of the source tree.
//!
//! Packages are checked as `cargo publish --workspace` would upload them: each published crate can be packaged, and
//! what is inside. Nothing is compiled for that: `cargo publish` itself compiles each package before it uploads any.
//! What the manifests must say is checked by the tidy tests.

use std::process::ExitCode;

use cargo_metadata::Metadata;

use crate::cargo::{cargo, cargo_output, metadata};
use crate::pool::{Found, Job, Pool};
use crate::stages::Stages;
use crate::tiers::Tier;
use crate::{dependencies, features, packages, systems};

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
    stages.run("packages", || check_packages(workspace.clone()?));
    stages.run("features", || features::check(features::SETS));
    match systems::set_up() {
        Some(why) => stages.skip("systems", why),
        None => {
            stages.run("systems", systems::check);
        }
    }
    let mut found = Found::default();
    let own = vec![Job::Cargo("xtask", "test --package xtask --no-fail-fast".to_owned())];
    let pool = Pool { tier: Tier::All, requires_all: false, is_verbose: false };
    stages.run("rules", || pool.run(own, &mut found));
    stages.finish(&found)
}

/// The files that every package must have in its root.
const REQUIRED: &[&str] = &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages every published crate, and reports what a package lacks.
fn check_packages(metadata: &Metadata) -> Result<(), String> {
    // A lock file in each package would need the registry's index, and so the network.
    let published = packages::package(metadata, "--no-verify --allow-dirty --exclude-lockfile --offline --quiet")?;
    let repositories: Vec<(&str, Option<&str>)> =
        published.iter().map(|package| (package.name.as_str(), package.repository.as_deref())).collect();
    let mut breaches = without_repository(&repositories);
    for package in published {
        let files =
            cargo_output(&format!("package --list --offline --allow-dirty --quiet --package {}", package.name))?;
        breaches.extend(lacking(&files).iter().map(|file| format!("the package of {} lacks {file}", package.name)));
    }
    breaches.iter().for_each(|breach| println!("{breach}"));
    if breaches.is_empty() { Ok(()) } else { Err(format!("{} breach(es)", breaches.len())) }
}

/// Which of the required files are not among those listed, one a line.
fn lacking(files: &str) -> Vec<&'static str> {
    REQUIRED.iter().copied().filter(|required| !files.lines().any(|file| file == *required)).collect()
}

/// The crates that name no repository, if there is one.
fn without_repository(repositories: &[(&str, Option<&str>)]) -> Vec<String> {
    let Some(repository) = repositories.iter().find_map(|(_, repository)| *repository) else {
        return Vec::new();
    };
    let others = repositories.iter().filter(|(_, named)| *named != Some(repository));
    others
        .map(|(name, _)| format!("{name} does not name the repository {repository}: `repository.workspace = true`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_a_licence_or_a_readme_in_its_root_is_reported() {
        let whole = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\n";
        assert!(lacking(whole).is_empty());
        for required in REQUIRED {
            let elsewhere = whole.replace(required, &format!("guide/{required}"));
            assert_eq!(lacking(&elsewhere), [*required]);
        }
        assert_eq!(lacking(""), REQUIRED);
    }

    #[test]
    fn once_there_is_a_repository_every_crate_names_it() {
        assert!(without_repository(&[("a", None), ("b", None)]).is_empty());
        assert!(without_repository(&[("a", Some("here")), ("b", Some("here"))]).is_empty());
        let found = without_repository(&[("a", None), ("b", Some("here")), ("c", Some("there"))]);
        assert!(found.len() == 2 && found[0].starts_with("a ") && found[1].starts_with("c "), "{found:?}");
    }
}
