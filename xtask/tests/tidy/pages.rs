//! The length of the pages: of a paragraph, of a cell of a table, of some pages, and of all of them together.
//!
//! A word is what stands between spaces, so that a table costs its bars. What the pages say is left to their readers;
//! the promises and their tests are checked in `guarantees`.

use crate::sources::{Source, sources};
use crate::{assert_none, guarantees};

/// A longer paragraph or item of a list is read twice.
const PARAGRAPH_WORDS_MAX: usize = 90;

/// A longer cell is a paragraph.
const CELL_WORDS_MAX: usize = 40;

/// Pages, and how many words they may have together: those whose paths begin in one of these ways.
const BUDGETS: &[(&[&str], usize)] = &[
    (&["README.md"], 900),
    (&["GUARANTEES.md"], 1_200),
    (&["GUARANTEES.md", guarantees::FOLDER], 6_000),
    (&["docs/performance.md"], 2_250),
    (&["docs/command.md"], 2_350),
    (&["docs/mixed-fleets.md"], 1_650),
    (&["docs/server.md"], 1_550),
    (&["docs/guide/postgresql.md"], 1_150),
    (&["docs/guide/recipes.md"], 1_250),
    (&["docs/guide/fencing.md"], 1_100),
    (&["docs/guide/operating.md"], 1_110),
    (&["docs/guide/redis.md"], 1_000),
    (&["docs/parity.md"], 400),
    (&["ARCHITECTURE.md"], 1_400),
    (&["CONTRIBUTING.md"], 1_300),
    (&["CHANGELOG.md"], 450),
    (&[""], 35_000),
];

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// What is read in one piece.
#[derive(Debug, Default)]
struct Pieces {
    /// Paragraphs and items of lists, each with the number of its first line.
    paragraphs: Vec<(usize, String)>,
    /// Cells of tables, each with the number of its line.
    cells: Vec<(usize, String)>,
}

impl Pieces {
    fn of(page: &str) -> Self {
        let mut pieces = Self::default();
        let (mut is_code, mut is_open) = (false, false);
        for (at, line) in page.lines().map(str::trim).enumerate() {
            let at = at + 1;
            if line.starts_with("```") {
                is_code = !is_code;
                is_open = false;
            } else if is_code || line.is_empty() || line.starts_with(['#', '<']) {
                is_open = false;
            } else if line.starts_with('|') {
                pieces.cells.extend(cells(line).into_iter().map(|cell| (at, cell)));
                is_open = false;
            } else if is_open && !begins_anew(line) {
                let (_, text) = pieces.paragraphs.last_mut().expect("one was begun");
                text.push(' ');
                text.push_str(line);
            } else {
                pieces.paragraphs.push((at, line.to_owned()));
                is_open = true;
            }
        }
        // A note is a list of tests, which is looked up and not read.
        pieces.paragraphs.retain(|(_, text)| !text.starts_with("[^"));
        pieces
    }
}

/// Whether a line is the first of an item of a list, or of a note.
fn begins_anew(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("[^") || number.len() < line.len() && number.starts_with(". ")
}

/// The cells of a row, in which `\|` is a bar of the text.
fn cells(row: &str) -> Vec<String> {
    const BAR: &str = "\u{1}";
    let row = row.replace("\\|", BAR);
    row.trim_matches('|').split('|').map(|cell| cell.replace(BAR, "|")).collect()
}

fn too_long(page: &Source) -> Vec<String> {
    let Pieces { paragraphs, cells } = Pieces::of(&page.text);
    let limits = [("paragraph", paragraphs, PARAGRAPH_WORDS_MAX), ("cell", cells, CELL_WORDS_MAX)];
    let over = limits.into_iter().flat_map(|(what, pieces, max)| {
        let over = pieces.into_iter().filter(move |(_, text)| words(text) > max);
        over.map(move |(at, text)| {
            format!("{}:{at}: a {what} of {} words, {max} at most: divide it", page.path, words(&text))
        })
    });
    over.collect()
}

fn over_budget(pages: &[Source], (prefixes, max): &(&[&str], usize)) -> Option<String> {
    let is_meant = |page: &&Source| prefixes.iter().any(|prefix| page.path.starts_with(prefix));
    let found: usize = pages.iter().filter(is_meant).map(|page| words(&page.text)).sum();
    let of = if prefixes == &[""] { "all pages".to_owned() } else { prefixes.join(" and ") };
    (found > *max).then(|| format!("{of}: {found} words, {max} at most: leave out what no reader needs"))
}

fn pages() -> Vec<Source> {
    sources().into_iter().filter(|source| source.path.ends_with(".md")).collect()
}

#[test]
fn no_paragraph_and_no_cell_is_too_long() {
    let pages = pages();
    assert!(pages.len() > 30, "only {} pages were found", pages.len());
    assert_none(&pages.iter().flat_map(too_long).collect::<Vec<_>>());
}

#[test]
fn pages_keep_to_their_number_of_words() {
    let pages = pages();
    assert_none(&BUDGETS.iter().filter_map(|budget| over_budget(&pages, budget)).collect::<Vec<_>>());
}

#[test]
fn planted_pages_that_are_too_long_are_reported() {
    let page = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let found = |text: &str| too_long(&page("a.md", text)).len();
    let of = |count: usize| vec!["word"; count].join(" ");
    let (paragraph, cell) = (of(PARAGRAPH_WORDS_MAX), of(CELL_WORDS_MAX));
    for right in [
        format!("{paragraph}\n\n{paragraph}"),
        format!("- {}\n- {}\n", of(PARAGRAPH_WORDS_MAX - 1), of(PARAGRAPH_WORDS_MAX - 1)),
        format!("1. {}\n2. {}\n", of(PARAGRAPH_WORDS_MAX - 1), of(PARAGRAPH_WORDS_MAX - 1)),
        format!("```text\n{paragraph} more\n```\n"),
        format!("[^note]: `{paragraph}`\n"),
        format!("| {cell} | {cell} |\n"),
    ] {
        assert_eq!(found(&right), 0, "{right}");
    }
    for wrong in [
        format!("{paragraph}\nmore"),
        format!("# Heading\n> {paragraph}"),
        format!("- {paragraph}"),
        format!("```text\n```\n{paragraph} more"),
        format!("| {cell} more | {cell} |\n"),
        format!("| {cell} a\\|b |\n"),
    ] {
        assert_eq!(found(&wrong), 1, "{wrong}");
    }
    let pages = [page("a.md", "one two"), page("b/c.md", "three"), page("b/d.md", "four")];
    let budget = |prefixes: &'static [&'static str], max| over_budget(&pages, &(prefixes, max));
    assert_eq!([budget(&["a.md"], 2), budget(&["a.md", "b/"], 4), budget(&[""], 4)], [None, None, None]);
    for over in [budget(&["a.md"], 1), budget(&["b/"], 1), budget(&["a.md", "b/d"], 2), budget(&[""], 3)] {
        assert!(over.is_some());
    }
}
