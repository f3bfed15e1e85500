//! The pages of guarantees: each of their lines names tests, and each test that it names exists.
//!
//! A line is an item of a list, a row of a table or a paragraph; one that ends with a colon introduces others. The note
//! at its end (`[^name]`) names cases of the conformance suite (`case: TITLE`; `…` may stand for the end of a title)
//! and tests of a crate (`redis::a_sentence`). Whether a test shows what the line says is left to who reads both.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::sources::{Source, sources};

/// The front page.
const FRONT: &str = "GUARANTEES.md";

/// Where the pages of conditions are.
pub(crate) const FOLDER: &str = "docs/guarantees/";

/// A longer item of a list is two promises, or says what no reader needs.
const ITEM_WORDS_MAX: usize = 60;

/// Where the cases of the conformance suite are.
const CASES_FOLDER: &str = "crates/conformance/src/cases/";

/// What a test binary without the usual harness names its tests with: as texts.
const OTHER_HARNESS: &str = "libtest_mimic";

/// What a name begins with that is the title of a case.
const CASE: &str = "case: ";

/// What ends a title that is not given in full.
const CUT: char = '…';

/// What begins a note's text, and a reference to it.
const NOTE: &str = "[^";

/// A line of the page, with the number of its last line of text.
#[derive(Debug)]
struct Statement {
    at: usize,
    text: String,
}

/// What the page says, and the notes by their names.
#[derive(Debug, Default)]
struct Page {
    statements: Vec<Statement>,
    notes: BTreeMap<String, String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.iter().position(|line| line.starts_with("## ")).unwrap_or(lines.len());
        let mut within = Within::Nothing;
        for (at, line) in lines.iter().enumerate().skip(begin) {
            within = if line.trim().is_empty() || line.starts_with('#') {
                Within::Nothing
            } else if let Some((name, named)) = line.strip_prefix(NOTE).and_then(|note| note.split_once("]:")) {
                page.notes.insert(name.to_owned(), named.to_owned());
                Within::Note(name)
            } else if line.starts_with('|') {
                let next = lines.get(at + 1).copied().unwrap_or_default();
                if !line.starts_with("| ---") && !next.starts_with("| ---") {
                    page.begin(at, line);
                }
                Within::Nothing
            } else {
                page.go_on(within, at, line)
            };
        }
        page.statements.retain(|statement| !statement.text.ends_with(':'));
        page
    }

    fn begin(&mut self, at: usize, line: &str) {
        self.statements.push(Statement { at: at + 1, text: line.to_owned() });
    }

    fn go_on<'text>(&mut self, within: Within<'text>, at: usize, line: &str) -> Within<'text> {
        match within {
            Within::Note(name) => {
                self.notes.entry(name.to_owned()).or_default().push_str(line);
                return within;
            }
            Within::Statement if !line.starts_with("- ") => {
                let statement = self.statements.last_mut().expect("one was begun");
                statement.at = at + 1;
                statement.text.push('\n');
                statement.text.push_str(line);
            }
            Within::Statement | Within::Nothing => self.begin(at, line),
        }
        Within::Statement
    }
}

/// What the next line of text belongs to.
#[derive(Clone, Copy, Debug)]
enum Within<'text> {
    Nothing,
    Statement,
    Note(&'text str),
}

/// The names of the notes that a text refers to.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split(NOTE).skip(1).filter_map(|rest| rest.split_once(']')).map(|(name, _)| name)
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What there is to name.
#[derive(Debug, Default)]
struct Tests<'text> {
    /// Functions, each behind its crate's folder.
    functions: BTreeSet<(&'text str, &'text str)>,
    /// Files that name tests as texts, each behind its crate's folder.
    others: Vec<(&'text str, &'text str)>,
    /// Files in which a macro makes tests of the names that it is given, each behind its crate's folder.
    macros: Vec<(&'text str, &'text str)>,
    /// Files with cases of the conformance suite.
    cases: Vec<&'text str>,
}

impl<'text> Tests<'text> {
    fn of(sources: &'text [Source]) -> Self {
        let mut tests = Self::default();
        for Source { path, text } in sources.iter().filter(|source| source.path.ends_with(".rs")) {
            let Some((folder, _)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
                continue;
            };
            let text = text.as_str();
            let (made, written): (Vec<_>, Vec<_>) = functions(text).partition(|name| name.starts_with('$'));
            tests.functions.extend(written.into_iter().map(|name| (folder, name)));
            if !made.is_empty() {
                tests.macros.push((folder, text));
            }
            if path.starts_with(CASES_FOLDER) {
                tests.cases.push(text);
            } else if text.contains(OTHER_HARNESS) {
                tests.others.push((folder, text));
            }
        }
        tests
    }

    /// How many texts of the suite have this in them.
    fn cases_with(&self, text: &str) -> usize {
        self.cases.iter().map(|cases| cases.matches(text).count()).sum()
    }

    fn has(&self, name: &str) -> bool {
        if let Some(title) = name.strip_prefix(CASE) {
            return match title.strip_suffix(CUT) {
                // The beginning of a title says which case is meant only if no other one begins so.
                Some(begin) => self.cases_with(&format!("\"{begin}")) == 1,
                None => self.cases_with(&format!("\"{title}\"")) > 0,
            };
        }
        let Some((folder, test)) = name.split_once("::") else { return false };
        let as_text = format!("\"{test}\"");
        let of_folder = |(other, _): &&(&str, &str)| *other == folder;
        self.functions.contains(&(folder, test))
            || self.others.iter().filter(of_folder).any(|(_, text)| text.contains(&as_text))
            || self.macros.iter().filter(of_folder).any(|(_, text)| has_argument(text, test))
    }
}

/// Whether a text gives a macro this name.
fn has_argument(text: &str, name: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(continues) && text[at + name.len()..].starts_with([',', ')', ';'])
    })
}

/// The functions that an attribute such as `#[test]` or `#[tokio::test(…)]` makes a test.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
            return None;
        }
        let (_, name) = line.split_once("fn ")?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')?;
        std::mem::take(&mut is_test).then(|| &name[..end])
    })
}

/// The breaches of a page, which is at `path`.
fn breaches(path: &str, page: &Page, tests: &Tests<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for Statement { at, text } in &page.statements {
        let words = text.split_whitespace().count();
        if text.starts_with("- ") && words > ITEM_WORDS_MAX {
            found.push(format!("{path}:{at}: an item of {words} words, {ITEM_WORDS_MAX} at most: make two of it"));
        }
        let names: Vec<_> = references(text).collect();
        if names.is_empty() {
            found.push(format!("{path}:{at}: names no test: end the line with a note, `[^name]`"));
        }
        let unknown = names.iter().filter(|name| !page.notes.contains_key(**name));
        found.extend(unknown.map(|name| format!("{path}:{at}: there is no note {name}")));
        used.extend(names);
    }
    for (note, text) in &page.notes {
        if !used.contains(note.as_str()) {
            found.push(format!("{path}: no line has the note {note}"));
        }
        if quoted(text).next().is_none() {
            found.push(format!("{path}: the note {note} names no test"));
        }
        let missing = quoted(text).filter(|name| !tests.has(name));
        found.extend(missing.map(|name| format!("{path}: the note {note} names {name:?}, and there is no such test")));
    }
    found
}

#[test]
fn each_line_of_the_guarantees_names_tests_that_exist() {
    let sources = sources();
    let tests = Tests::of(&sources);
    let is_page = |path: &str| path == FRONT || path.starts_with(FOLDER) && path.ends_with(".md");
    let pages: Vec<_> = sources
        .iter()
        .filter(|source| is_page(&source.path))
        .map(|Source { path, text }| (path.as_str(), Page::read(text)))
        .collect();
    let of_service = ["etcd", "files", "redis", "sql", "zookeeper"].map(|service| format!("{FOLDER}{service}.md"));
    for path in of_service.iter().map(String::as_str).chain([FRONT]) {
        assert!(pages.iter().any(|(other, _)| *other == path), "{path} was not found");
    }
    let statements: usize = pages.iter().map(|(_, page)| page.statements.len()).sum();
    assert!(statements > 150, "only {statements} lines were found");
    let found: Vec<_> = pages.iter().flat_map(|(path, page)| breaches(path, page, &tests)).collect();
    assert_none(&found);
}

#[test]
fn a_line_without_a_test_and_a_test_that_was_renamed_are_reported() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let sources = [
        source(
            "crates/redis/src/a.rs",
            "    #[tokio::test(start_paused = true)]\n    #[ignore]\n    async fn it_is() {",
        ),
        source("crates/redis/src/b.rs", "#[cfg(test)]\nfn no_test() {"),
        source("crates/sql/src/c.rs", "#[test]\nfn $name() {}\nmade!(it_is_made, it_is_made_too);"),
        source("crates/etcd/tests/faults/main.rs", "use libtest_mimic::Trial; [(\"it_holds\", play)]"),
        source(
            "crates/conformance/src/cases/order.rs",
            "Case::new(\n\"first come, first served\", order)\nCase::new(\"first of all\", all)",
        ),
    ];
    let tests = Tests::of(&sources);
    let of = |text: &str| {
        let page = Page::read(&format!("An introduction.\n\n## Promises\n\n{text}\n"));
        breaches("a.md", &page, &tests)
    };
    let note = "\n\n[^a]: `redis::it_is`, `etcd::it_holds`, `sql::it_is_made`,\n  `case: first come, first served`";
    for right in
        ["- One.\n  Two.[^a]", "| what | then |\n| --- | --- |\n| x | y[^a] |", "As follows:\n\n- One.[^a]", "So.[^a]"]
    {
        assert_eq!(of(&format!("{right}{note}")), [""; 0], "{right}");
    }
    for wrong in ["- One.\n- Two.[^a]", "- One.[^a]\n\nNo note.", "- One.[^a]\n- Two.[^b]", "| x | y |\n\nSo.[^a]"] {
        assert_eq!(of(&format!("{wrong}{note}")).len(), 1, "{wrong}");
    }
    assert_eq!(of("So.[^a]\n\n[^a]: `case: first come…`"), [""; 0], "the beginning of one title");
    for words in [ITEM_WORDS_MAX, ITEM_WORDS_MAX + 1] {
        let item = format!("-{}.[^a]{note}", " word".repeat(words - 1));
        assert_eq!(of(&item).len(), words - ITEM_WORDS_MAX, "an item of {words} words");
    }
    let names = ["redis::it_was", "redis::no_test", "sql::it_is", "sql::made", "it_is"];
    let cases = ["case: last come", "case: it_is", "case: first come", "case: first…", "case: last…"];
    for name in names.into_iter().chain(cases) {
        let found = of(&format!("So.[^a]\n\n[^a]: `redis::it_is`,\n  `{name}`"));
        assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
    }
    assert_eq!(of("So.[^a]\n\n[^a]: none\n[^b]: `redis::it_is`").len(), 2, "a note without a test, and one of no line");
}
