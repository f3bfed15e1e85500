//! The dependencies of others, as `cargo metadata` tells them: their licences, and crates of which there are two.
//!
//! Both rules are tables here, [`LICENCES`] and [`TWICE`]; nothing else knows them. What our own manifests must say is
//! checked by the tidy tests.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{Metadata, Package, semver::Version};
use spdx::{Expression, Licensee, ParseMode};

/// The licences under which a dependency may come: all permissive, by their SPDX names. Of a choice, one is enough. The
/// Boost licence is that of xxhash-rust, which the crate `redis` brings; the CDLA is that of webpki-roots, a list of
/// authorities that mysql_async brings with TLS, and that we do not use.
const LICENCES: &[&str] =
    &["Apache-2.0", "BSD-3-Clause", "BSL-1.0", "CDLA-Permissive-2.0", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// A crate of which more than one version is built.
struct Twice {
    name: &'static str,
    /// The versions, each as far as it decides what is compatible: `1`, `0.4`.
    series: &'static [&'static str],
    /// Why we cannot have one.
    why: &'static str,
}

/// Only the tests of the embedded server bring these in, through another ZooKeeper client.
const BY_ZOOKEEPER_CLIENT: &str = "tests only: zookeeper-client has the older ones";

/// Only tests and examples of metrics bring this in.
const BY_METRICS_UTIL: &str = "tests only: metrics-util has the older one";

/// The driver of MySQL and MariaDB.
const BY_MYSQL_ASYNC: &str = "mysql_async has the older one";

/// The crates that may be there more than once. Another one fails, and a test finds entries that are no longer true.
const TWICE: &[Twice] = &[
    Twice { name: "ahash", series: &["0.7", "0.8"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "base64", series: &["0.22", "0.23"], why: "tonic, which speaks to etcd, has the older one" },
    Twice { name: "block-buffer", series: &["0.10", "0.12"], why: BY_MYSQL_ASYNC },
    Twice { name: "compact_str", series: &["0.4", "0.9"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "const-oid", series: &["0.10", "0.9"], why: BY_MYSQL_ASYNC },
    Twice { name: "cpufeatures", series: &["0.2", "0.3"], why: BY_MYSQL_ASYNC },
    Twice { name: "crypto-common", series: &["0.1", "0.2"], why: BY_MYSQL_ASYNC },
    Twice { name: "digest", series: &["0.10", "0.11"], why: BY_MYSQL_ASYNC },
    Twice {
        name: "getrandom",
        series: &["0.2", "0.3", "0.4"],
        why: "ring, which rustls uses, has the oldest, mysql_async the next",
    },
    Twice {
        name: "hashbrown",
        series: &["0.12", "0.14", "0.16", "0.17"],
        why: "tests only: zookeeper-client has the older ones, metrics-util the next",
    },
    Twice { name: "hashlink", series: &["0.11", "0.8"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "heck", series: &["0.3", "0.5"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "hmac", series: &["0.12", "0.13"], why: BY_MYSQL_ASYNC },
    Twice { name: "itertools", series: &["0.14", "0.15"], why: "ratatui has the older one" },
    Twice { name: "rand", series: &["0.10", "0.9"], why: BY_METRICS_UTIL },
    Twice {
        name: "rand_core",
        series: &["0.10", "0.6", "0.9"],
        why: "mysql_async has the oldest, metrics-util in tests the next",
    },
    Twice { name: "sha1", series: &["0.10", "0.11"], why: BY_MYSQL_ASYNC },
    Twice { name: "sha2", series: &["0.10", "0.11"], why: BY_MYSQL_ASYNC },
    Twice { name: "strum", series: &["0.23", "0.28"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "strum_macros", series: &["0.23", "0.28"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "syn", series: &["1", "2", "3"], why: BY_ZOOKEEPER_CLIENT },
    Twice {
        name: "synstructure",
        series: &["0.13", "0.14"],
        why: "an optional part of rcgen, which makes certificates for tests, has the older one",
    },
    Twice { name: "thiserror", series: &["1", "2"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "thiserror-impl", series: &["1", "2"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "toml_datetime", series: &["0.6", "1"], why: BY_ZOOKEEPER_CLIENT },
    Twice { name: "winnow", series: &["0.5", "1"], why: BY_ZOOKEEPER_CLIENT },
];

/// A crate of others, in one version.
struct Dependency<'a> {
    name: &'a str,
    version: &'a Version,
    licence: Option<&'a str>,
}

/// Checks all dependencies, and reports every breach.
pub(crate) fn check(metadata: &Metadata) -> Result<(), String> {
    let dependencies = Dependency::all_of(metadata);
    if dependencies.is_empty() {
        return Err("cargo metadata names no dependency".to_owned());
    }
    let mut breaches = licence_breaches(&dependencies);
    breaches.extend(new_duplicates(&dependencies, TWICE));
    breaches.iter().for_each(|breach| println!("{breach}"));
    if !breaches.is_empty() {
        return Err(format!("{} breach(es) of the rules in xtask/src/dependencies.rs", breaches.len()));
    }
    println!("{} dependencies have allowed licences; in several versions, for a reason:", dependencies.len());
    TWICE.iter().for_each(|Twice { name, series, why }| println!("  {name} {}: {why}", series.join(", ")));
    Ok(())
}

impl<'a> Dependency<'a> {
    fn all_of(metadata: &'a Metadata) -> Vec<Self> {
        let theirs = metadata.packages.iter().filter(|package| package.source.is_some());
        theirs.map(Self::of_package).collect()
    }

    fn of_package(package: &'a Package) -> Self {
        Self { name: &package.name, version: &package.version, licence: package.license.as_deref() }
    }

    /// The part of the version that decides what is compatible: two of one series are never built together.
    fn series(&self) -> String {
        match (self.version.major, self.version.minor) {
            (0, 0) => format!("0.0.{}", self.version.patch),
            (0, minor) => format!("0.{minor}"),
            (major, _) => major.to_string(),
        }
    }
}

fn licence_breaches(dependencies: &[Dependency<'_>]) -> Vec<String> {
    let told = |Dependency { name, version, licence }: &Dependency<'_>| {
        let why = refusal(*licence)?;
        Some(format!("{name} {version}: {why}; find another crate, or allow the licence in LICENCES"))
    };
    dependencies.iter().filter_map(told).collect()
}

/// Why a licence is not allowed; `None` if it is.
fn refusal(licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else {
        return Some("it states no licence".to_owned());
    };
    // Old manifests separate a choice with a slash.
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("its licence `{licence}` is not an SPDX expression"));
    };
    let allowed: Vec<Licensee> = LICENCES.iter().filter_map(|name| Licensee::parse(name).ok()).collect();
    let is_allowed = expression.evaluate(|required| allowed.iter().any(|licensee| licensee.satisfies(required)));
    (!is_allowed).then(|| format!("its licence `{licence}` is not allowed"))
}

/// Each crate's name with the series of it that are built.
fn series_by_name<'a>(dependencies: &[Dependency<'a>]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut series: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for dependency in dependencies {
        series.entry(dependency.name).or_default().insert(dependency.series());
    }
    series
}

/// Crates of which several versions are built, and not only those listed.
fn new_duplicates(dependencies: &[Dependency<'_>], twice: &[Twice]) -> Vec<String> {
    let mut breaches = Vec::new();
    for (name, found) in series_by_name(dependencies) {
        let listed = twice.iter().find(|twice| twice.name == name).map_or(&[][..], |twice| twice.series);
        if found.len() > 1 && !found.iter().all(|one| listed.contains(&one.as_str())) {
            let found: Vec<String> = found.into_iter().collect();
            breaches.push(format!(
                "{name} is built as {}: see `cargo tree -i {name}@VERSION`; unite them, or say why in TWICE",
                found.join(" and ")
            ));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::metadata;

    fn versions(listed: &[(&'static str, &str)]) -> Vec<(&'static str, Version)> {
        listed.iter().map(|(name, version)| (*name, Version::parse(version).expect("a version"))).collect()
    }

    /// The breaches of these versions, if `a` may be there as 1 and 2.
    fn breaches(listed: &[(&'static str, &str)]) -> Vec<String> {
        let versions = versions(listed);
        let dependencies: Vec<Dependency<'_>> =
            versions.iter().map(|(name, version)| Dependency { name, version, licence: Some("MIT") }).collect();
        new_duplicates(&dependencies, &[Twice { name: "a", series: &["1", "2"], why: "a test" }])
    }

    #[test]
    fn every_licence_that_is_allowed_is_one() {
        assert!(LICENCES.iter().all(|name| Licensee::parse(name).is_ok()));
    }

    #[test]
    fn a_licence_is_allowed_if_one_of_a_choice_is_and_all_that_apply_are() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "Unlicense OR MIT",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "Apache-2.0 AND ISC",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert_eq!(refusal(Some(licence)), None, "{licence}");
        }
        for licence in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "AGPL-3.0-or-later OR MPL-2.0",
            "(MIT OR Zlib) AND LGPL-2.1-or-later",
            "free for all",
        ] {
            assert!(refusal(Some(licence)).is_some_and(|why| why.contains(licence)), "{licence}");
        }
        assert!(refusal(None).is_some());
    }

    #[test]
    fn a_refused_licence_is_told_with_the_crate_and_its_version() {
        let version = Version::new(1, 2, 3);
        let copyleft = Dependency { name: "copyleft", version: &version, licence: Some("GPL-3.0-only") };
        let found = licence_breaches(&[copyleft]);
        assert!(found.len() == 1 && found[0].starts_with("copyleft 1.2.3: "), "{found:?}");
    }

    #[test]
    fn versions_that_are_listed_pass() {
        assert!(breaches(&[("a", "1.9.0"), ("a", "2.0.1"), ("b", "0.4.7")]).is_empty());
    }

    #[test]
    fn a_new_duplicate_fails_and_so_does_a_third_version_of_a_listed_one() {
        for new in [("b", "0.5.0"), ("a", "3.0.0")] {
            let found = breaches(&[("a", "1.9.0"), ("a", "2.0.1"), ("b", "0.4.7"), new]);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{} is built as ", new.0)), "{found:?}");
        }
    }

    #[test]
    fn this_workspace_breaks_no_rule() {
        check(&metadata().expect("cargo metadata reads the workspace")).expect("no breach");
    }

    #[test]
    fn every_version_that_is_listed_is_still_built() {
        let metadata = metadata().expect("cargo metadata reads the workspace");
        let built = series_by_name(&Dependency::all_of(&metadata));
        for Twice { name, series, .. } in TWICE {
            let found = built.get(name).map(|found| found.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), Some(*series), "{name}: what is built, and what TWICE lists");
        }
    }
}
