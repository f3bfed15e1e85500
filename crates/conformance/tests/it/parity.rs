//! The map of the peers' tests to ours (`parity.tsv`), and the page with the faults that were reported to them: all
//! that they name exists, and each of them names a test or gives a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use lockkeeper_conformance::cases;

use crate::named::{assert_exist, is_in_file, rows, workspace};

/// The columns are the peer, its class or file, its test, and our case, our `path::name` or a reason.
const MAP: &str = include_str!("parity.tsv");

/// So many tests the peers have, and Curator alone: the map has each of them.
const PEERS_TESTS: usize = 144;
const CURATORS_TESTS: usize = 110;

/// Where tests run on the project's server; each case of the suite runs on it too.
const ON_OUR_SERVER: [&str; 4] = [
    "crates/zookeeper/tests/it/both/",
    "crates/zookeeper/tests/it/embedded/",
    "crates/cli/tests/it/server",
    "crates/zk-server/tests/",
];

/// A peer's test: peer, class or file, name.
type PeersTest = (&'static str, &'static str, &'static str);

/// What each of the peers' tests has here.
fn map() -> BTreeMap<PeersTest, Vec<&'static str>> {
    let mut found: BTreeMap<PeersTest, Vec<&str>> = BTreeMap::new();
    for [peer, class, test, ours] in rows(MAP) {
        found.entry((peer, class, test)).or_default().push(ours);
    }
    found
}

/// The faults of the page, each with what stands in backticks in its last column.
fn faults() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(workspace().join("docs/parity.md")).expect("the page is there");
    let rows_of_faults = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let fault = |row: &str| {
        let last = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().expect("a row has columns");
        (row.to_owned(), last.split('`').skip(1).step_by(2).map(str::to_owned).collect())
    };
    rows_of_faults.map(fault).collect()
}

#[test]
fn every_test_and_case_that_is_named_exists() {
    let faults = faults();
    let of_page = faults.iter().flat_map(|(_, cases)| cases).map(String::as_str);
    assert_exist(map().into_values().flatten().chain(of_page));
}

#[test]
fn every_test_of_the_peers_and_every_fault_has_a_counterpart_or_a_reason() {
    let map = map();
    assert_eq!(map.len(), PEERS_TESTS, "the peers' tests");
    for (test, ours) in map {
        assert!(ours.iter().all(|ours| !ours.is_empty()), "neither a counterpart nor a reason: {test:?}");
    }
    let faults = faults();
    assert!(faults.len() > 10, "{} faults were found", faults.len());
    for (row, cases) in faults {
        assert!(!cases.is_empty(), "no case: {row}");
    }
}

#[test]
fn every_test_of_curators_has_one_that_runs_on_our_server() {
    let of_curator: Vec<_> = map().into_iter().filter(|((peer, ..), _)| *peer == "Curator").collect();
    assert_eq!(of_curator.len(), CURATORS_TESTS, "Curator's tests");
    for (test, ours) in of_curator {
        let runs = |ours: &&str| !is_in_file(ours) || ON_OUR_SERVER.iter().any(|part| ours.starts_with(part));
        assert!(ours.iter().any(runs), "has no test that runs on our server: {test:?}");
    }
}

#[test]
fn no_two_cases_have_the_same_name() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        assert!(seen.insert(case.name()), "{:?} is there twice", case.name());
    }
}
