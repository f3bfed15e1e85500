//! Names of our tests and cases, as the maps (`*.tsv`) write them: whether they exist. What each of them is named for,
//! the maps' own tests know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lockkeeper_conformance::{Case, cases};

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of a map, without that of the headings.
pub(crate) fn rows<const COLUMNS: usize>(map: &'static str) -> impl Iterator<Item = [&'static str; COLUMNS]> {
    map.lines().skip(1).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        columns.try_into().unwrap_or_else(|_| panic!("a line has {COLUMNS} columns: {line}"))
    })
}

/// Whether this stands for a test that there is not, and says why.
pub(crate) fn is_reason(ours: &str) -> bool {
    ours.starts_with("None: ")
}

/// Whether this is the name of a test in a file, and not that of a case.
pub(crate) fn is_in_file(ours: &str) -> bool {
    ours.contains("::") && !is_reason(ours)
}

/// Fails if one of these names no case and no test, and is no reason either.
pub(crate) fn assert_exist<'a>(named: impl IntoIterator<Item = &'a str>) {
    let cases = cases();
    let known: BTreeSet<_> = cases.iter().map(Case::name).collect();
    let is_there = |ours: &str| match ours.split_once("::").filter(|_| is_in_file(ours)) {
        Some((file, test)) => is_test(file, test),
        None => is_reason(ours) || is_one(&known, ours),
    };
    let missing: BTreeSet<_> = named.into_iter().filter(|ours| !is_there(ours)).collect();
    assert!(missing.is_empty(), "no such case or test: {missing:#?}");
}

/// Whether a name is that of a case, or, where it ends with `…`, the beginning of one case's name and of no other.
fn is_one(known: &BTreeSet<&str>, name: &str) -> bool {
    match name.strip_suffix('…') {
        Some(begin) => known.iter().filter(|other| other.starts_with(begin)).count() == 1,
        None => known.contains(name),
    }
}

/// Whether a file has a test: a function, or a text where the test binary has a harness of its own.
fn is_test(file: &str, test: &str) -> bool {
    let text = fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let is_text = || text.contains("libtest_mimic") || text.contains("suite::");
    text.contains(&format!("fn {test}("))
        || is_text() && ['"', ':'].iter().any(|before| text.contains(&format!("{before}{test}\"")))
}
