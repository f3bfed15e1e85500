//! The links of the site as a browser sees them: each names a file of the site, and an anchor names an element.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A page that mdBook makes for servers alone, whose links begin at a root.
const FOR_SERVERS: &str = "404.html";

/// A page of the site: its text, and the names of its elements.
struct Made {
    text: String,
    names: BTreeSet<String>,
}

/// The links that lead nowhere, each with its page.
pub(super) fn breaches(site: &Path) -> io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    collect(site, &mut pages)?;
    let mut found = Vec::new();
    for (path, page) in &pages {
        for target in attributes(&page.text, "href").chain(attributes(&page.text, "src")) {
            if target.contains(':') || target.is_empty() {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let wanted = if file.is_empty() { path.clone() } else { normal(&path.with_file_name("").join(file)) };
            let why = match pages.get(&wanted) {
                None if !wanted.exists() => "no such file",
                Some(page) if !anchor.is_empty() && !page.names.contains(anchor) => "no such anchor",
                _ => continue,
            };
            found.push(format!("{}: {target}: {why}", path.display()));
        }
    }
    Ok(found)
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, Made>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") && !path.ends_with(FOR_SERVERS) {
            let text = fs::read_to_string(&path)?;
            let names = attributes(&text, "id").map(str::to_owned).collect();
            pages.insert(path, Made { text, names });
        }
    }
    Ok(())
}

/// The values of an attribute, in the order of the page.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let places: Vec<usize> = text.match_indices(&begin).map(|(at, _)| at + begin.len()).collect();
    places.into_iter().filter_map(|at| text[at..].split('"').next())
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut kept = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                kept.pop();
            }
            std::path::Component::CurDir => {}
            part => kept.push(part),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_no_file_and_one_to_no_element_are_found() {
        let site = tempfile::tempdir().expect("a folder can be made");
        let write = |name: &str, text: &str| fs::write(site.path().join(name), text).expect("a file can be written");
        write("a.html", r##"<a id="x" href="b.html#y"><a href="#x"><img src="p.png"><a href="https://x.org/">"##);
        write("b.html", r#"<h1 id="y"></h1>"#);
        write("p.png", "");
        assert_eq!(breaches(site.path()).expect("it can be read"), Vec::<String>::new());
        write("b.html", r#"<a href="../c.html"><h1 id="z"></h1>"#);
        let found = breaches(site.path()).expect("it can be read");
        assert!(found.len() == 2 && found[0].ends_with("b.html#y: no such anchor"), "{found:?}");
        assert!(found[1].ends_with("../c.html: no such file"), "{found:?}");
    }
}
