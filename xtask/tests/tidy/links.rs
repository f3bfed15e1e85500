//! The links of all Markdown pages lead to files and headings that exist, and each page of the guide can be found.

use std::fs;
use std::path::Path;

use crate::links_of_pages::{Page, anchors, breaches, links, pages, resolved};
use crate::{assert_none, root};

/// Where the guide is.
const GUIDE: &str = "docs/guide/";

fn is_there(path: &str) -> bool {
    root().join(path).exists()
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    let pages = pages(root()).expect("the pages can be read");
    assert!(pages.iter().any(|page| page.path == "README.md"), "the walk misses the front page");
    assert_none(&breaches(&pages, is_there));
}

#[test]
fn every_page_of_the_guide_is_in_its_contents_and_in_the_documentation_of_the_library() {
    let contents = fs::read_to_string(root().join(GUIDE).join("README.md")).expect("the guide has a front page");
    let library = fs::read_to_string(root().join("crates/lockkeeper/src/guide.rs")).expect("the library has the guide");
    let listed: Vec<String> = links(&contents).into_iter().map(|link| link.target).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(GUIDE)).expect("the guide can be listed") {
        let name = entry.expect("an entry of the guide can be read").file_name().to_string_lossy().into_owned();
        if name == "README.md" || Path::new(&name).extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        if !listed.contains(&name) {
            found.push(format!("{GUIDE}README.md does not list {name}"));
        }
        if !library.contains(&format!("include_str!(\"../guide/{name}\")")) {
            found.push(format!("crates/lockkeeper/src/guide.rs does not include {name}: its code is compiled nowhere"));
        }
    }
    assert_none(&found);
}

#[test]
fn planted_links_that_lead_nowhere_are_reported() {
    let page = |path: &str, text: &str| Page { path: path.to_owned(), text: text.to_owned() };
    let target = page("docs/b.md", "# The `run` of [it](x.md)\n\n## Twice\n## Twice\n```sh\n# no heading\n```\n");
    assert_eq!(anchors(&target.text), ["the-run-of-it", "twice", "twice-1"]);
    let good = "[a](b.md#twice-1) [b](../README.md) `[c](no.md)` <img src=\"../p.png\"> [d](https://x.org/no)\n\
        ```text\n[e](no.md)\n```\n[f](#here)\n# Here\n";
    let is_there = |path: &str| ["README.md", "p.png", "docs/a.md", "docs/b.md"].contains(&path);
    let found = |text: &str| breaches(&[page("docs/a.md", text), page("docs/b.md", &target.text)], is_there);
    // The page `b` has a link of its own in a heading.
    assert_eq!(found(good), ["docs/b.md:1: there is no `docs/x.md`"]);
    for bad in ["[a](no.md)", "[a](b.md#no)", "[a](#no)", "![a](../q.png)", "<img srcset=\"q.png\">"] {
        assert_eq!(found(&format!("one\n{bad}\n")).len(), 2, "{bad}");
        assert!(found(&format!("one\n{bad}\n"))[0].starts_with("docs/a.md:2: "), "{bad}");
    }
    assert_eq!(resolved("docs/a.md", "../../x.md#y"), Some(("x.md".to_owned(), "y")));
}
