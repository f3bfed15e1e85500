//! Sets of features: what is checked there, and which tests run there.
//!
//! A user who takes one feature compiles code that `--all-features` leaves out (`#[cfg(not(feature = "…"))]`). Six sets
//! find nearly all of it, [`SETS`]; the long run has all of them, of every crate, as the manifests tell.

use std::collections::BTreeMap;

use cargo_metadata::Metadata;

use crate::cargo::cargo;

/// The crate whose features choose the services.
const FACADE: &str = "lockkeeper";

/// A feature's name, with what it turns on.
type Features = BTreeMap<String, Vec<String>>;

/// The sets that are usually checked: the library with nothing, as it comes and with all, the command as it comes and
/// with all, and one with TLS but without the services that `full` has.
pub(crate) const SETS: &[&str] = &[
    "--package lockkeeper --no-default-features",
    "--package lockkeeper",
    "--package lockkeeper --features full",
    "--package lockkeeper-cli",
    "--package lockkeeper-cli --features full",
    "--package lockkeeper-cli --features tls",
];

/// Compiles with each of these sets. Warnings are errors.
pub(crate) fn check(sets: &[impl AsRef<str>]) -> Result<(), String> {
    // Clippy checks as `cargo check` does, and denies warnings without building the dependencies anew.
    let fails = |set: &&str| cargo(&format!("clippy {set} -- -D warnings"), &[]).is_err();
    let failed: Vec<&str> = sets.iter().map(AsRef::as_ref).filter(fails).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Every crate that has features with none, then with each alone.
pub(crate) fn all(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    packages.iter().flat_map(|package| sets_to_check(&package.name, &package.features)).collect()
}

/// What to ask of cargo for the tests of the facade without a service, and with each service alone.
///
/// The documentation's examples are left out: they are written for the default features.
pub(crate) fn tests(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let facade = packages.iter().find(|package| package.name == FACADE);
    let sets = facade.map(|package| sets_to_test(&package.features)).unwrap_or_default();
    sets.iter().map(|set| format!("test {set} --lib --tests --no-fail-fast")).collect()
}

fn sets_to_check(package: &str, features: &Features) -> Vec<String> {
    let named: Vec<&str> = features.keys().map(String::as_str).filter(|feature| *feature != "default").collect();
    if named.is_empty() { Vec::new() } else { sets(package, &named) }
}

fn sets_to_test(features: &Features) -> Vec<String> {
    let brings_backend = |turned_on: &[String]| turned_on.iter().any(|one| one.starts_with("dep:lockkeeper-"));
    let services = features.iter().filter(|(_, turned_on)| brings_backend(turned_on));
    sets(FACADE, &services.map(|(feature, _)| feature.as_str()).collect::<Vec<_>>())
}

/// No feature, then each alone.
fn sets(package: &str, features: &[&str]) -> Vec<String> {
    let none = format!("--package {package} --no-default-features");
    let alone: Vec<String> = features.iter().map(|feature| format!("{none} --features {feature}")).collect();
    [vec![none], alone].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::metadata;

    fn features(listed: &[(&str, &[&str])]) -> Features {
        let owned = |turned_on: &[&str]| turned_on.iter().map(|one| (*one).to_owned()).collect();
        listed.iter().map(|(feature, turned_on)| ((*feature).to_owned(), owned(turned_on))).collect()
    }

    #[test]
    fn a_crate_is_checked_with_none_of_its_features_and_with_each_alone() {
        let tls_and_file = features(&[("default", &["file"]), ("file", &[]), ("tls", &[])]);
        assert_eq!(
            sets_to_check("a", &tls_and_file),
            [
                "--package a --no-default-features",
                "--package a --no-default-features --features file",
                "--package a --no-default-features --features tls",
            ]
        );
        assert!(sets_to_check("a", &features(&[])).is_empty());
    }

    #[test]
    fn the_usual_sets_name_crates_and_features_that_there_are() {
        let all = all(&metadata().expect("cargo metadata reads the workspace"));
        let features = SETS.iter().filter(|set| set.contains(" --features "));
        for set in features {
            let alone = set.replace(" --features", " --no-default-features --features");
            assert!(all.contains(&alone), "{set} in {all:?}");
        }
    }

    #[test]
    fn tests_run_without_a_service_and_with_each_alone_but_not_with_what_adds_to_a_service() {
        let of_facade = features(&[("file", &["dep:lockkeeper-file"]), ("tls", &["lockkeeper-zookeeper?/tls"])]);
        assert_eq!(
            sets_to_test(&of_facade),
            [
                "--package lockkeeper --no-default-features",
                "--package lockkeeper --no-default-features --features file"
            ]
        );
    }

    #[test]
    fn the_facade_and_its_services_are_found_in_this_workspace() {
        let tests = tests(&metadata().expect("cargo metadata reads the workspace"));
        let ends = |with: &str| tests.iter().any(|test| test.contains(with));
        let has_all =
            ["features --lib", "etcd --lib", "file --lib", "redis --lib", "zookeeper --lib"].into_iter().all(ends);
        assert!(tests.len() >= 5 && has_all, "{tests:?}");
    }
}
