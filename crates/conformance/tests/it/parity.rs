//! The page that maps the peers' tests to ours: all that it names exists, and each row names a test or gives a reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lockkeeper_conformance::cases;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(workspace().join("docs/parity.md")).expect("the page is there")
}

/// Returns the rows of all tables, without their heads.
fn rows(page: &str) -> Vec<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let is_row = |at: &usize| lines[*at].starts_with('|') && !lines[*at].starts_with("| ---");
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("| ---"));
    (0..lines.len()).filter(is_row).filter(|&at| !is_head(at)).map(|at| lines[at]).collect()
}

/// Returns what stands in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the counterparts in the last column of a row; a reason has none.
fn named(row: &str) -> Vec<&str> {
    if is_reason(row) { Vec::new() } else { quoted(last_column(row)) }
}

/// Returns the counterparts that are functions, as `path::name`.
fn tests(row: &str) -> impl Iterator<Item = (&str, &str)> {
    named(row).into_iter().filter_map(|name| name.split_once("::"))
}

/// Returns the peers' tests of a row.
fn of_peer(row: &str) -> Vec<&str> {
    quoted(row.trim_start_matches("| ").split(" | ").next().expect("a row has columns"))
}

fn is_reason(row: &str) -> bool {
    last_column(row).starts_with("None: ")
}

fn last_column(row: &str) -> &str {
    row.trim_end_matches(['|', ' ']).rsplit(" | ").next().expect("a row has columns")
}

/// Whether a name is that of a case, or, where it ends with `…`, the beginning of one case's name and of no other.
fn is_one(known: &BTreeSet<&str>, name: &str) -> bool {
    match name.strip_suffix('…') {
        Some(begin) => known.iter().filter(|other| other.starts_with(begin)).count() == 1,
        None => known.contains(name),
    }
}

#[test]
fn every_case_that_the_page_names_is_in_the_suite() {
    let cases = cases();
    let known: BTreeSet<_> = cases.iter().map(lockkeeper_conformance::Case::name).collect();
    let page = page();
    let missing: Vec<_> =
        rows(&page).into_iter().flat_map(named).filter(|name| !name.contains("::") && !is_one(&known, name)).collect();
    assert!(missing.is_empty(), "no such case: {missing:#?}");
}

#[test]
fn every_test_that_the_page_names_is_in_its_file() {
    let page = page();
    for (file, function) in rows(&page).into_iter().flat_map(tests) {
        let text = fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {function}(")), "{file} has no test {function}");
    }
}

#[test]
fn every_row_names_a_counterpart_or_says_why_there_is_none() {
    let page = page();
    let rows = rows(&page);
    let count = rows.iter().copied().flat_map(of_peer).count();
    assert!(count > PEERS_TESTS, "{count} tests of peers were found");
    for row in rows {
        assert!(is_reason(row) || !named(row).is_empty(), "neither a counterpart nor a reason: {row}");
    }
}

/// The page has more tests of the peers than this: it was read whole.
const PEERS_TESTS: usize = 140;

/// The same of Curator's.
const CURATORS_TESTS: usize = 105;

/// Where tests run on the project's server; each case of the suite runs on it too.
const ON_OUR_SERVER: [&str; 4] = [
    "crates/zookeeper/tests/it/both/",
    "crates/zookeeper/tests/it/embedded/",
    "crates/cli/tests/it/server",
    "crates/zk-server/tests/",
];

#[test]
fn every_row_of_curators_names_a_test_that_runs_on_our_server() {
    let page = page();
    let sections = page.split("\n## ").filter(|section| section.starts_with("Curator"));
    let on_our_server = |name: &&str| !name.contains("::") || ON_OUR_SERVER.iter().any(|part| name.starts_with(part));
    let of_curator: Vec<&str> = sections.flat_map(rows).collect();
    let count = of_curator.iter().copied().flat_map(of_peer).count();
    assert!(count > CURATORS_TESTS, "{count} tests of Curator's were found");
    for row in of_curator {
        assert!(is_reason(row) || named(row).iter().any(on_our_server), "names no test that runs on our server: {row}");
    }
}

#[test]
fn no_two_cases_have_the_same_name() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        assert!(seen.insert(case.name()), "{:?} is there twice", case.name());
    }
}
