//! The figures of speed: `docs/performance.md` has their source, and every other page gives the same.
//!
//! Two forms are known. A row of a table with a ratio (`0.73 ×`) has a link to a section of the source, and its cells
//! before the ratio are those of a row there. A link into the source whose text has a number gives a ratio of that
//! section. A figure that is written otherwise is not seen.

use crate::links_of_pages::{Page, anchors, pages, resolved};
use crate::{assert_none, root};

const SOURCE: &str = "docs/performance.md";

/// Behind a ratio in a cell.
const TIMES: &str = " ×";

/// A row of a table of the source.
#[derive(Debug)]
struct Measured {
    /// The anchor of its section.
    section: String,
    /// The names of its columns.
    head: Vec<String>,
    cells: Vec<String>,
}

impl Measured {
    /// The ratios that it has for a service: in the column of that name, or else in the first of figures.
    fn ratios(&self, service: &str) -> Vec<&str> {
        let column = self.head.iter().position(|name| name == service).unwrap_or(2);
        self.cells.get(column).map_or_else(Vec::new, |cell| ratios(cell))
    }
}

/// The figures of a cell that stand before their least and most: `685:914 µs, **0.73** (0.34–0.83)` has 0.73.
fn ratios(cell: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = cell.split(" (").collect();
    parts.pop();
    parts.into_iter().filter_map(|part| part.rsplit(' ').next()).map(|word| word.trim_matches('*')).collect()
}

fn cells(line: &str) -> Option<Vec<String>> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    Some(row.split('|').map(|cell| cell.trim().to_owned()).collect())
}

fn measured(source: &str) -> Vec<Measured> {
    let (mut section, mut head, mut found) = (String::new(), Vec::new(), Vec::new());
    for line in source.lines() {
        if let Some(anchor) = anchors(line).pop() {
            section = anchor;
        }
        match cells(line) {
            None => head.clear(),
            Some(names) if head.is_empty() => head = names,
            Some(cells) => found.push(Measured { section: section.clone(), head: head.clone(), cells }),
        }
    }
    found
}

/// The text and the section of each link into the source on a line of a page.
fn links<'a>(page: &str, line: &'a str) -> Vec<(&'a str, &'a str)> {
    let parts: Vec<&str> = line.split("](").collect();
    let texts = parts.iter().map(|part| part.rsplit('[').next().unwrap_or_default());
    let targets = parts.iter().skip(1).map(|part| part.split(')').next().unwrap_or_default());
    let found = texts.zip(targets).filter_map(|(text, target)| match resolved(page, target) {
        Some((path, anchor)) if path == SOURCE => Some((text, anchor)),
        _ => None,
    });
    found.collect()
}

/// The numbers of a text, as it writes them.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || ".,".contains(c)));
    words.map(|word| word.trim_matches([',', '.'])).filter(|word| !word.is_empty())
}

/// The figures of a page that are not those of the source, and how many figures it has.
fn strangers(page: &Page, source: &[Measured]) -> (usize, Vec<String>) {
    let (mut count, mut found, mut last) = (0, Vec::new(), None);
    for (at, line) in page.text.lines().enumerate() {
        let mut judge = |number: &str, ratios: Vec<&str>| {
            count += 1;
            if !ratios.contains(&number) {
                found.push(format!("{}:{}: {number} is {ratios:?} in {SOURCE}", page.path, at + 1));
            }
        };
        let links = links(&page.path, line);
        for &(text, section) in &links {
            let of_section = source.iter().filter(|row| row.section == section);
            let all: Vec<&str> = of_section.flat_map(|row| row.cells.iter().flat_map(|cell| ratios(cell))).collect();
            numbers(text).for_each(|number| judge(number, all.clone()));
        }
        let Some(cells) = cells(line) else {
            last = None;
            continue;
        };
        last = links.first().copied().or(last);
        let Some((ratio, keys)) = cells.split_last().filter(|(cell, _)| cell.ends_with(TIMES)) else { continue };
        let (service, section) = last.unwrap_or_default();
        let key = keys.get(1..).unwrap_or_default();
        let row = source.iter().find(|row| row.section == section && row.cells.starts_with(key));
        numbers(ratio).for_each(|number| judge(number, row.map_or_else(Vec::new, |row| row.ratios(service))));
    }
    (count, found)
}

#[test]
fn every_figure_of_speed_is_that_of_its_source() {
    let pages = pages(root()).expect("the pages can be read");
    let source = pages.iter().find(|page| page.path == SOURCE).expect("the source is there");
    let rows = measured(&source.text);
    assert!(rows.len() > 50, "only {} rows were found", rows.len());
    let others = pages.iter().filter(|page| page.path != SOURCE);
    let (counts, found): (Vec<usize>, Vec<Vec<String>>) = others.map(|page| strangers(page, &rows)).unzip();
    assert!(counts.iter().sum::<usize>() >= 10, "the figures of the front page were not seen");
    assert_none(&found.concat());
}

#[test]
fn planted_figures_that_differ_are_reported() {
    let source = "## On a database\n\n| what | beside | A | B |\n| --- | --- | --- | --- |\n\
        | lock | x | 2:1 µs, **2.00** (1.50–2.10), again 1.90 (1.80–1.95) | 3:1 µs, 3.00 (2.90–3.10) |\n\
        | lock | y | 5:1 µs, 5.00 (4.00–6.00) | |\n";
    let rows = measured(source);
    let judged = |text: &str| strangers(&Page { path: "a.md".to_owned(), text: text.to_owned() }, &rows);
    let table = |service: &str, rest: &str| format!("| [{service}](docs/performance.md#on-a-database) | {rest}\n");
    for (right, count) in [
        (table("A", "lock | x | 2.00 × |"), 1),
        (table("A", "lock | x | 1.90 to 2.00 × |"), 2),
        (table("B", "lock | x | 3.00 × |"), 1),
        (table("A", "lock | x | 2.00 × |") + "| | lock | y | 5.00 × |\n", 2),
        ("up to [5.00 times](docs/performance.md#on-a-database) as fast\n".to_owned(), 1),
        ("1.25 × session timeout, [faster](docs/performance.md#on-a-database)\n".to_owned(), 0),
    ] {
        assert_eq!(judged(&right), (count, Vec::new()), "{right}");
    }
    for wrong in [
        table("A", "lock | x | 2.01 × |"),
        table("A", "lock | x | 3.00 × |"),
        table("B", "lock | x | 2.00 × |"),
        table("A", "lock | z | 2.00 × |"),
        table("A", "lock | x | 2.00 × |") + "| | lock | y | 2.00 × |\n",
        "| A | lock | x | 2.00 × |\n".to_owned(),
        "[6.00 times](docs/performance.md#on-a-database) as fast\n".to_owned(),
    ] {
        assert_eq!(judged(&wrong).1.len(), 1, "{wrong}");
    }
}
