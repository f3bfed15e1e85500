//! The rules for every manifest: the workspace's lints with unsafe forbidden, and what users of a published crate need.

use std::fs;
use std::path::Path;

use cargo_metadata::Package;
use toml::Table;

use crate::{assert_none, packages, root};

fn manifest(path: &Path) -> Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn unsafe_is_forbidden_in_every_crate() {
    let workspace = manifest(&root().join("Cargo.toml"));
    let unsafe_code = &workspace["workspace"]["lints"]["rust"]["unsafe_code"];
    assert_eq!(unsafe_code.as_str(), Some("forbid"), "[workspace.lints.rust] must forbid unsafe_code");
    let inherits = |package: &Package| {
        let manifest = manifest(package.manifest_path.as_std_path());
        manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    let breaches: Vec<String> = packages(root())
        .iter()
        .filter(|package| !inherits(package))
        .map(|package| format!("{} does not inherit the lints: add `[lints] workspace = true`", package.name))
        .collect();
    assert_none(&breaches);
}

/// What a published package lacks; nothing for one that is never published.
fn lacks(package: &Package) -> Vec<&'static str> {
    if package.publish.as_ref().is_some_and(Vec::is_empty) {
        return Vec::new();
    }
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let has = |file: &str| folder.join(file).is_file();
    let claims = [
        ("a README.md in its folder", has("README.md") && package.readme.is_some()),
        ("the licences in its folder (links to those of the workspace)", has("LICENSE-MIT") && has("LICENSE-APACHE")),
        ("[package.metadata.docs.rs]", package.metadata.pointer("/docs/rs").is_some()),
        ("a description", package.description.is_some()),
        ("license.workspace = true", package.license.as_deref() == Some("MIT OR Apache-2.0")),
        ("rust-version.workspace = true", package.rust_version.is_some()),
        ("keywords.workspace = true", !package.keywords.is_empty()),
        ("categories.workspace = true", !package.categories.is_empty()),
    ];
    claims.into_iter().filter(|(_, there)| !there).map(|(what, _)| what).collect()
}

#[test]
fn every_published_crate_has_what_the_registry_and_docs_rs_show() {
    let packages = packages(root());
    let breaches: Vec<String> = packages
        .iter()
        .flat_map(|package| lacks(package).into_iter().map(|what| format!("{} lacks {what}", package.name)))
        .collect();
    assert_none(&breaches);
}

#[test]
fn both_licences_are_there() {
    for (file, opening) in [("LICENSE-MIT", "MIT License"), ("LICENSE-APACHE", "Apache License")] {
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.trim_start().starts_with(opening), "{file} does not open with {opening:?}");
    }
}
