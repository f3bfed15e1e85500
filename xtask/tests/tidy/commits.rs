//! The rule for commits: a first line that fits where git shows it. An unpacked archive has no commits to look at.

use std::process::Command;

use crate::{assert_none, root};

/// The rule holds for the commits after this one.
const SINCE: &str = "3302af9b";

/// The width that `git log` leaves of a terminal of 80 columns.
const SUBJECT_COLUMNS_MAX: usize = 72;

/// The first lines of the commits after [`SINCE`]; `None` where there is no history that goes back so far.
fn subjects() -> Option<Vec<String>> {
    let range = format!("{SINCE}..HEAD");
    let asked = Command::new("git").args(["log", "--format=%s", &range]).current_dir(root()).output().ok()?;
    let text = asked.status.success().then(|| String::from_utf8_lossy(&asked.stdout).into_owned())?;
    Some(text.lines().map(str::to_owned).collect())
}

fn too_wide(subjects: &[String]) -> Vec<String> {
    let wide = subjects.iter().filter(|subject| subject.chars().count() > SUBJECT_COLUMNS_MAX);
    wide.map(|subject| format!("wider than {SUBJECT_COLUMNS_MAX} columns: {subject}")).collect()
}

#[test]
fn the_first_line_of_a_commit_is_not_too_wide() {
    assert_none(&too_wide(&subjects().unwrap_or_default()));
}

#[test]
fn a_planted_wide_line_is_reported() {
    assert!(too_wide(&["x".repeat(SUBJECT_COLUMNS_MAX)]).is_empty());
    assert_eq!(too_wide(&["x".repeat(SUBJECT_COLUMNS_MAX + 1)]).len(), 1);
}
