//! Checks of the source tree itself, which a reviewer would otherwise do by hand.
//!
//! Each failure says what is wrong, where, and the cure. A rule that could pass by looking at nothing also has a test
//! with a planted breach.

mod circles;
mod commits;
mod crates;
mod figures;
mod guarantees;
mod layers;
mod links;
#[path = "../../src/links.rs"]
mod links_of_pages;
mod names;
mod pages;
mod readme;
mod sources;
mod words;

use std::path::Path;

use cargo_metadata::{MetadataCommand, Package};

/// The workspace's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The packages of the workspace in `folder`, as their manifests declare them; needs no network.
fn packages(folder: &Path) -> Vec<Package> {
    let metadata = MetadataCommand::new().manifest_path(folder.join("Cargo.toml")).no_deps().exec();
    metadata.expect("cargo metadata reads the workspace").packages
}

/// Fails with one line for each breach.
#[track_caller]
fn assert_none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breach(es):\n  {}", breaches.len(), breaches.join("\n  "));
}
