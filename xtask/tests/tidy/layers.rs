//! The layers: a crate imports only from lower ones, never sideways; the table here is the rule.
//!
//! What a crate ships (normal and build dependencies) follows the table to the letter. Its tests may also use anything
//! of a lower layer, the recipes, the conformance suite, and the embedded server as a test double. The examples in the
//! documentation of what the facade re-exports compile as a user writes them, through the facade.

use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Package};

use crate::{assert_none, packages, root};

/// The layer of crates that test and measure the others. A crate that ships never imports them.
const TESTING: u8 = 8;

/// The crates that any other may use in its tests, in any layer.
const IN_ALL_TESTS: &[&str] =
    &["lockkeeper-conformance", "lockkeeper-faults", "lockkeeper-recipes", "lockkeeper-trials", "lockkeeper-zk-server"];

/// The crates whose public items users know through the facade.
const RE_EXPORTED: &[&str] = &["lockkeeper-core", "lockkeeper-recipes"];

struct Place {
    layer: u8,
    package: &'static str,
    may_import: Imports,
}

enum Imports {
    These(&'static [&'static str]),
    Anything,
}

use Imports::{Anything, These};

const LAYERS: &[Place] = &[
    Place { layer: 0, package: "lockkeeper-core", may_import: These(&[]) },
    Place { layer: 0, package: "lockkeeper-zk-proto", may_import: These(&[]) },
    Place { layer: 1, package: "lockkeeper-history", may_import: These(&["lockkeeper-core"]) },
    Place { layer: 1, package: "lockkeeper-tls", may_import: These(&["lockkeeper-core"]) },
    Place { layer: 2, package: "lockkeeper-session", may_import: These(&["lockkeeper-core", "lockkeeper-tls"]) },
    Place { layer: 2, package: "lockkeeper-recipes", may_import: These(&["lockkeeper-core"]) },
    Place {
        layer: 3,
        package: "lockkeeper-zookeeper",
        may_import: These(&["lockkeeper-core", "lockkeeper-session", "lockkeeper-tls", "lockkeeper-zk-proto"]),
    },
    Place { layer: 2, package: "lockkeeper-zk-server", may_import: These(&["lockkeeper-zk-proto"]) },
    Place { layer: 2, package: "lockkeeper-file", may_import: These(&["lockkeeper-core"]) },
    Place {
        layer: 3,
        package: "lockkeeper-etcd",
        may_import: These(&["lockkeeper-core", "lockkeeper-session", "lockkeeper-tls"]),
    },
    Place {
        layer: 3,
        package: "lockkeeper-redis",
        may_import: These(&["lockkeeper-core", "lockkeeper-session", "lockkeeper-tls"]),
    },
    Place {
        layer: 3,
        package: "lockkeeper-sql",
        may_import: These(&["lockkeeper-core", "lockkeeper-session", "lockkeeper-tls"]),
    },
    Place {
        layer: 4,
        package: "lockkeeper",
        may_import: These(&[
            "lockkeeper-core",
            "lockkeeper-history",
            "lockkeeper-recipes",
            "lockkeeper-zookeeper",
            "lockkeeper-file",
            "lockkeeper-etcd",
            "lockkeeper-redis",
            "lockkeeper-sql",
        ]),
    },
    Place { layer: 5, package: "lockkeeper-sqlx", may_import: These(&["lockkeeper"]) },
    Place { layer: 5, package: "lockkeeper-monitor", may_import: These(&["lockkeeper"]) },
    Place {
        layer: 6,
        package: "lockkeeper-console",
        may_import: These(&["lockkeeper", "lockkeeper-monitor", "lockkeeper-tls"]),
    },
    Place {
        layer: 7,
        package: "lockkeeper-cli",
        may_import: These(&["lockkeeper", "lockkeeper-console", "lockkeeper-monitor", "lockkeeper-zk-server"]),
    },
    Place {
        layer: TESTING,
        package: "lockkeeper-conformance",
        may_import: These(&["lockkeeper-core", "lockkeeper-history", "lockkeeper-recipes"]),
    },
    Place { layer: TESTING, package: "lockkeeper-faults", may_import: Anything },
    Place { layer: TESTING, package: "lockkeeper-simulation", may_import: Anything },
    Place { layer: TESTING, package: "lockkeeper-rivals", may_import: Anything },
    Place { layer: TESTING, package: "lockkeeper-trials", may_import: Anything },
    Place { layer: TESTING, package: "lockkeeper-bench", may_import: Anything },
    Place { layer: TESTING, package: "lockkeeper-pictures", may_import: Anything },
    Place { layer: TESTING, package: "xtask", may_import: Anything },
];

fn place(package: &str) -> Option<&'static Place> {
    LAYERS.iter().find(|place| place.package == package)
}

impl Place {
    fn may_import(&self, imported: &Self, kind: DependencyKind) -> bool {
        let listed = match self.may_import {
            These(packages) => packages.contains(&imported.package),
            Anything => true,
        };
        let in_examples = imported.package == "lockkeeper" && RE_EXPORTED.contains(&self.package);
        // A crate that names itself turns on a feature for its tests.
        let is_itself = imported.package == self.package;
        let in_tests =
            imported.layer < self.layer || IN_ALL_TESTS.contains(&imported.package) || in_examples || is_itself;
        listed || kind == DependencyKind::Development && in_tests
    }
}

/// All breaches of the table by the packages of one workspace.
fn breaches(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let Some(importer) = place(&package.name) else {
            found.push(format!(
                "{} has no layer: give it a place in LAYERS in xtask/tests/tidy/layers.rs and in ARCHITECTURE.md's map",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(imported) = place(&dependency.name) else {
                continue;
            };
            if !importer.may_import(imported, dependency.kind) {
                found.push(format!(
                    "{} (layer {}) must not import {} (layer {}) as a {} dependency: move what they share to a lower \
                     layer",
                    importer.package, importer.layer, imported.package, imported.layer, dependency.kind
                ));
            }
        }
    }
    found
}

#[test]
fn every_crate_imports_only_what_its_layer_may() {
    let packages = packages(root());
    assert!(!packages.is_empty());
    assert_none(&breaches(&packages));
}

#[test]
fn the_table_itself_points_only_downwards() {
    for Place { layer, package, may_import } in LAYERS {
        let These(imports) = may_import else { continue };
        for imported in *imports {
            let below = place(imported).unwrap_or_else(|| panic!("{imported}, imported by {package}, has no place"));
            assert!(below.layer < *layer, "{package} (layer {layer}) may import {imported} (layer {})", below.layer);
        }
    }
}

/// Writes a workspace of empty packages with the given dependency tables and answers its breaches.
fn breaches_of_planted(manifests: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder.path().join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n");
    for (package, dependencies) in manifests {
        let manifest = format!("[package]\nname = \"{package}\"\nedition = \"2024\"\n{dependencies}\n");
        write(&folder.path().join(package).join("Cargo.toml"), &manifest);
        write(&folder.path().join(package).join("src/lib.rs"), "");
    }
    breaches(&packages(folder.path()))
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder is made");
    fs::write(path, text).expect("the file is written");
}

#[test]
fn a_planted_sideways_import_is_reported() {
    let sideways = "[dependencies]\nlockkeeper-redis = { path = \"../lockkeeper-redis\" }";
    let found = breaches_of_planted(&[("lockkeeper-file", sideways), ("lockkeeper-redis", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("lockkeeper-file (layer 2) must not import lockkeeper-redis (layer 3)"), "{found:?}");
}

#[test]
fn an_upward_import_is_reported_also_when_renamed_optional_for_one_target_or_for_a_build_script() {
    for table in ["dependencies", "build-dependencies", "target.'cfg(windows)'.dependencies"] {
        let entry = "{ package = \"lockkeeper\", path = \"../lockkeeper\", optional = true }";
        let upward = format!("[{table}]\nfacade = {entry}");
        let found = breaches_of_planted(&[("lockkeeper-core", &upward), ("lockkeeper", "")]);
        assert_eq!(found.len(), 1, "{table}: {found:?}");
    }
}

#[test]
fn tests_may_use_the_conformance_suite_and_lower_layers_but_not_a_sister() {
    let in_tests = |package: &str| format!("[dev-dependencies]\n{package} = {{ path = \"../{package}\" }}");
    let cases = [("lockkeeper-conformance", 0), ("lockkeeper-zk-proto", 0), ("lockkeeper-sql", 1), ("lockkeeper", 1)];
    for (package, breaches) in cases {
        let found = breaches_of_planted(&[("lockkeeper-file", &in_tests(package)), (package, "")]);
        assert_eq!(found.len(), breaches, "{package}: {found:?}");
    }
}

#[test]
fn an_unknown_crate_is_reported_with_the_cure() {
    let found = breaches_of_planted(&[("lockkeeper-extra", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("LAYERS"), "{found:?}");
}
