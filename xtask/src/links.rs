//! Links of the Markdown pages: each names a file of the repository, and an anchor names a heading of its page.
//!
//! It reads texts and knows no network: links with a scheme are left alone. `cargo xtask docs` and the tidy tests use
//! it, and each says what its breaches are for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders with no page of ours.
const NO_PAGES: &[&str] = &[".git", "target"];

/// A Markdown page of the repository.
#[derive(Debug)]
pub(crate) struct Page {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A link of a page.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    /// As the page has it.
    pub(crate) target: String,
}

/// All Markdown pages below a folder, but for those behind symbolic links.
pub(crate) fn pages(root: &Path) -> io::Result<Vec<Page>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() && !NO_PAGES.iter().any(|name| path == Path::new(name)) {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(root.join(&path))?;
                found.push(Page { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The links that lead nowhere, each with its page and line. `is_there` tells whether a path of the repository exists.
pub(crate) fn breaches(pages: &[Page], is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut found = Vec::new();
    for page in pages {
        for Link { line, target } in links(&page.text) {
            let Some((path, anchor)) = resolved(&page.path, &target) else { continue };
            let why = match anchors.get(path.as_str()) {
                _ if !is_there(&path) => format!("there is no `{path}`"),
                Some(known) if !anchor.is_empty() && !known.iter().any(|one| one == anchor) => {
                    format!("`{path}` has no heading `#{anchor}`")
                }
                _ => continue,
            };
            found.push(format!("{}:{line}: {why}", page.path));
        }
    }
    found
}

/// The path and the anchor that a link of a page means; `None` if it leads out of the repository.
pub(crate) fn resolved<'a>(page: &str, target: &'a str) -> Option<(String, &'a str)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    Some((parts.join("/"), anchor))
}

/// The links and pictures of a page, in its order.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let prose = prose(text);
    let mut found = Vec::new();
    let mut take = |begin: &str, end: &[char]| {
        for (at, _) in prose.match_indices(begin) {
            let rest = &prose[at + begin.len()..];
            let target = rest.split(end).next().unwrap_or_default().trim();
            if !target.is_empty() {
                let line = prose[..at].matches('\n').count() + 1;
                found.push(Link { line, target: target.to_owned() });
            }
        }
    };
    take("](", &[')', ' ', '\n']);
    take("src=\"", &['"']);
    take("srcset=\"", &['"']);
    take("href=\"", &['"']);
    found.sort_by_key(|link| link.line);
    found
}

/// The anchors of a page: of its headings, as GitHub and mdBook name them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for line in without_blocks(text).lines() {
        let level = line.chars().take_while(|mark| *mark == '#').count();
        let Some(heading) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else { continue };
        let anchor = anchor(heading);
        let before = times.entry(anchor.clone()).or_default();
        found.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    found
}

fn anchor(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading.trim();
    // Of a link its text is shown.
    while let Some((before, link)) = rest.split_once("](") {
        shown.push_str(before);
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let kept = shown.chars().filter(|mark| mark.is_alphanumeric() || matches!(mark, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|mark| if mark == ' ' { '-' } else { mark }).collect()
}

/// A page without its blocks of code; it keeps its lines.
fn without_blocks(text: &str) -> String {
    let mut fence = None;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let begins = ["```", "~~~"].into_iter().find(|fence| line.trim_start().starts_with(fence));
        match (fence, begins) {
            (None, Some(begins)) => fence = Some(begins),
            (Some(open), Some(ends)) if open == ends => fence = None,
            (None, None) => kept.push_str(line),
            _ => {}
        }
        kept.push('\n');
    }
    kept
}

/// A page without its code; it keeps its lines.
fn prose(text: &str) -> String {
    let text = without_blocks(text);
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('`') {
        let ticks = rest[at..].chars().take_while(|mark| *mark == '`').count();
        let (before, code) = (&rest[..at], &rest[at + ticks..]);
        kept.push_str(before);
        // A span ends within its paragraph.
        let paragraph = code.split("\n\n").next().unwrap_or_default();
        let Some(end) = paragraph.find(&"`".repeat(ticks)) else {
            rest = code;
            continue;
        };
        kept.extend(code[..end].chars().filter(|mark| *mark == '\n'));
        rest = &code[end + ticks..];
    }
    kept.push_str(rest);
    kept
}
