//! The map of the peers' tests to ours (`parity.tsv`), and the page with the faults that were reported to them: all
//! that they name exists, and each of them names a test or gives a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lockkeeper_conformance::cases;

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

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A peer's test: peer, class or file, name.
type PeersTest = (&'static str, &'static str, &'static str);

/// What each of the peers' tests has here.
fn map() -> BTreeMap<PeersTest, Vec<&'static str>> {
    let mut found: BTreeMap<PeersTest, Vec<&str>> = BTreeMap::new();
    for line in MAP.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [peer, class, test, ours] = columns[..] else { panic!("a line has four columns: {line}") };
        found.entry((peer, class, test)).or_default().push(ours);
    }
    found
}

/// The faults of the page, each with what stands in backticks in its last column.
fn faults() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(workspace().join("docs/parity.md")).expect("the page is there");
    let rows = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let fault = |row: &str| {
        let last = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().expect("a row has columns");
        (row.to_owned(), last.split('`').skip(1).step_by(2).map(str::to_owned).collect())
    };
    rows.map(fault).collect()
}

fn is_reason(ours: &str) -> bool {
    ours.starts_with("None: ")
}

/// Whether a name is that of a case, or, where it ends with `…`, the beginning of one case's name and of no other.
fn is_one(known: &BTreeSet<&str>, name: &str) -> bool {
    match name.strip_suffix('…') {
        Some(begin) => known.iter().filter(|other| other.starts_with(begin)).count() == 1,
        None => known.contains(name),
    }
}

#[test]
fn every_case_that_is_named_is_in_the_suite() {
    let cases = cases();
    let known: BTreeSet<_> = cases.iter().map(lockkeeper_conformance::Case::name).collect();
    let of_map =
        map().into_values().flatten().filter(|ours| !is_reason(ours) && !ours.contains("::")).map(str::to_owned);
    let of_page = faults().into_iter().flat_map(|(_, cases)| cases);
    let missing: Vec<_> = of_map.chain(of_page).filter(|name| !is_one(&known, name)).collect();
    assert!(missing.is_empty(), "no such case: {missing:#?}");
}

#[test]
fn every_test_that_is_named_is_in_its_file() {
    for (file, function) in map().into_values().flatten().filter_map(|ours| ours.split_once("::")) {
        if is_reason(file) {
            continue;
        }
        let text = fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {function}(")), "{file} has no test {function}");
    }
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
        let runs = |ours: &&str| {
            is_reason(ours) || !ours.contains("::") || ON_OUR_SERVER.iter().any(|part| ours.starts_with(part))
        };
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
