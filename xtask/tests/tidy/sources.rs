//! The rules for every file: its length and width, its opening words, and no path of a developer's own machine.

use std::fs;
use std::path::Path;

use crate::{assert_none, root};

/// A longer file holds more than one idea.
const LINES_MAX: usize = 600;

/// How wide a line may be. `cargo fmt` keeps to it where it formats, which is not in comments, texts and macros.
const COLUMNS_MAX: usize = 120;

/// A shorter file is too small for a room, and a house of many is a maze: so many there may be.
const SHORT_FILES_MAX: usize = 90;

/// A file below this many lines is short.
const SHORT_LINES: usize = 60;

/// The median of the lines of a source file, from and to.
const MEDIAN_LINES: (usize, usize) = (150, 200);

/// A `mod.rs` is a table of contents.
const MOD_LINES_MAX: usize = 80;

/// Words that open no file: a reader looks for the noun of what is in it.
const NO_NOUNS: &[&str] = &["How", "What", "Which", "Who", "Whose"];

/// Folders at the root of the file system that exist on one machine and not on another.
const MACHINE_FOLDERS: &[&str] = &["work", "root", "home", "Users"];

/// Files that name such folders on purpose: the file, and why.
const MACHINE_FOLDERS_ALLOWED: &[(&str, &str)] = &[];

/// Folders at the workspace's root that hold nothing of ours.
const NOT_SOURCES: &[&str] = &["target", ".git"];

/// A text file of the tree.
pub(crate) struct Source {
    /// Relative to the workspace's root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files of the tree. It is walked rather than asked of git, so that an unpacked archive passes too.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(root(), &mut found);
    assert!(found.iter().any(|source| source.path == "xtask/tests/tidy/sources.rs"), "the walk misses this very file");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree can be listed") {
        let entry = entry.expect("an entry of the tree can be read");
        let path = entry.path();
        let relative = path.strip_prefix(root()).expect("the walk stays below the root").to_string_lossy().into_owned();
        let kind = entry.file_type().expect("an entry of the tree has a type");
        if kind.is_dir() && !NOT_SOURCES.contains(&relative.as_str()) {
            collect(&path, found);
        } else if kind.is_file() {
            // A file that is not UTF-8 is not text, and these rules do not apply to it.
            found.extend(fs::read_to_string(&path).ok().map(|text| Source { path: relative, text }));
        }
    }
}

fn breaches(sources: &[Source], rule: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    sources.iter().flat_map(rule).collect()
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let is_mod = source.path.ends_with("/mod.rs");
    let (lines_max, cure) = match is_mod {
        true => (MOD_LINES_MAX, "a mod.rs is a table of contents: move code into files beside it"),
        false => (LINES_MAX, "split it by idea"),
    };
    let over = source.path.ends_with(".rs") && lines > lines_max;
    over.then(|| format!("{}: {lines} lines, {lines_max} at most; {cure}", source.path)).into_iter().collect()
}

fn without_opening(source: &Source) -> Vec<String> {
    let missing = source.path.ends_with(".rs") && !source.text.starts_with("//!");
    missing
        .then(|| format!("{} must open with `//!`: what it is for and what it leaves to others", source.path))
        .into_iter()
        .collect()
}

fn opening_without_a_noun(source: &Source) -> Vec<String> {
    let first = source.text.strip_prefix("//! ").and_then(|text| text.split_whitespace().next());
    let opening = first.filter(|word| source.path.ends_with(".rs") && NO_NOUNS.contains(word));
    opening
        .map(|word| format!("{} opens with `{word}`: name the thing that is in it", source.path))
        .into_iter()
        .collect()
}

fn too_wide(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate().filter(|(_, line)| is_too_wide(line));
    let lines = lines.filter(|_| source.path.ends_with(".rs"));
    lines
        .map(|(index, _)| format!("{}:{}: wider than {COLUMNS_MAX} columns; break it", source.path, index + 1))
        .collect()
}

/// Whether the line is too wide and can be broken: a row of a table cannot, nor can a line of one word, such as a URL.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim();
    line.chars().count() > COLUMNS_MAX && !text.starts_with('|') && text.contains(char::is_whitespace)
}

fn machine_paths(source: &Source) -> Vec<String> {
    if MACHINE_FOLDERS_ALLOWED.iter().any(|(file, _)| *file == source.path) {
        return Vec::new();
    }
    let lines = source.text.lines().enumerate().filter(|(_, line)| has_machine_path(line));
    lines
        .map(|(index, line)| format!("{}:{}: a path of one machine: {}", source.path, index + 1, line.trim()))
        .collect()
}

/// Whether the line names one of [`MACHINE_FOLDERS`] from the root on: the slash before it begins a path, and the
/// folder's name ends after it.
fn has_machine_path(line: &str) -> bool {
    let continues_path = |c: char| c.is_alphanumeric() || "_-.~/}>)]*".contains(c);
    let continues_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + path.len()..].chars().next();
            !before.is_some_and(continues_path) && !after.is_some_and(continues_name)
        })
    })
}

#[test]
fn every_file_is_short_enough_to_hold_one_idea() {
    assert_none(&breaches(&sources(), too_long));
}

#[test]
fn most_source_files_are_rooms_and_not_cupboards() {
    let sources = sources();
    let is_source = |path: &str| path.ends_with(".rs") && path.contains("/src/") && !path.contains("/tests/");
    let files = sources.iter().filter(|source| is_source(&source.path));
    let mut lines: Vec<_> = files.map(|source| (source.text.lines().count(), source.path.as_str())).collect();
    lines.sort_unstable();
    let short: Vec<_> = lines.iter().filter(|(lines, _)| *lines < SHORT_LINES).map(|(_, path)| *path).collect();
    let cure = "merge by idea";
    assert!(short.len() <= SHORT_FILES_MAX, "{} short files; {cure}:\n  {}", short.len(), short.join("\n  "));
    let (from, to) = MEDIAN_LINES;
    let median = lines[lines.len() / 2].0;
    assert!((from..=to).contains(&median), "the median source file has {median} lines, not {from} to {to}; {cure}");
}

#[test]
fn every_rust_file_opens_with_what_it_is_for() {
    assert_none(&breaches(&sources(), without_opening));
    assert_none(&breaches(&sources(), opening_without_a_noun));
}

#[test]
fn no_line_of_a_rust_file_is_too_wide() {
    assert_none(&breaches(&sources(), too_wide));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    assert_none(&breaches(&sources(), machine_paths));
}

#[test]
fn planted_breaches_are_reported() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    assert!(too_long(&source("a.rs", &"\n".repeat(LINES_MAX))).is_empty());
    assert_eq!(too_long(&source("a.rs", &"\n".repeat(LINES_MAX + 1))).len(), 1);
    assert_eq!(too_long(&source("a/mod.rs", &"\n".repeat(MOD_LINES_MAX + 1))).len(), 1);
    assert!(too_long(&source("notes.md", &"\n".repeat(LINES_MAX + 1))).is_empty());
    let of_width = |begin: &str, end: &str| begin.to_owned() + &"x".repeat(COLUMNS_MAX - begin.len()) + end;
    assert!(too_wide(&source("a.rs", &of_width("/// a word ", ""))).is_empty());
    for begin in ["    /// a word ", "//! - see [", "// a ", "let text = \""] {
        assert_eq!(too_wide(&source("a.rs", &of_width(begin, "]"))).len(), 1, "{begin}");
        assert!(too_wide(&source("a.md", &of_width(begin, "]"))).is_empty(), "{begin}");
    }
    for begin in ["//! | a row ", "    /// https:", "\""] {
        assert!(too_wide(&source("a.rs", &of_width(begin, "x"))).is_empty(), "{begin}");
    }
    assert_eq!(without_opening(&source("a.rs", "// Not a heading\n")).len(), 1);
    assert_eq!(without_opening(&source("a.rs", "")).len(), 1);
    assert_eq!(opening_without_a_noun(&source("a.rs", "//! What two rooms share.\n")).len(), 1);
    assert!(opening_without_a_noun(&source("a.rs", "//! State of two rooms.\n")).is_empty());
    for folder in MACHINE_FOLDERS {
        for line in ["see F/x", "cd F", "\"F/x\"", "file:F/x", "(F/)"] {
            let line = line.replace('F', &format!("/{folder}"));
            assert_eq!(machine_paths(&source("a.md", &line)).len(), 1, "{line}");
        }
        for line in ["$DIR/F/x", "crates/F", "https://example.org/F", "/Fs/x", "{base}/F"] {
            let line = line.replace('F', folder);
            assert!(machine_paths(&source("a.md", &line)).is_empty(), "{line}");
        }
    }
}
