//! `cargo xtask docs`: the pages as a site, by mdBook, to be read from a server or from the disk.
//!
//! The pages keep their places, so that their links stay right; what they link besides is copied. All is made in the
//! target directory. Links are checked before, in the pages, and after, in the site.

mod contents;
mod site;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, root, succeeded, target_folder};
use crate::links::{Page, breaches, links, pages, resolved};

/// The version of mdBook.
const MDBOOK_VERSION: &str = "0.5.4";

/// The pages at the root of the repository that are part of the site, and the folder of the others.
const ROOT_PAGES: [&str; 6] =
    ["README.md", "GUARANTEES.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
const FOLDER: &str = "docs/";

/// The front page of a folder.
const FRONT_PAGE: &str = "README.md";

/// What mdBook is told: search, one light and one dark theme, and nothing that needs a network.
const BOOK: &str = r#"[book]
title = "Lockkeeper"
language = "en"
src = "src"

[build]
build-dir = "../site"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
additional-css = ["site.css"]
no-section-label = true
smart-punctuation = false

[output.html.playground]
runnable = false

[output.html.print]
enable = false

[output.html.search]
limit-results = 20
use-boolean-and = true
"#;

/// The other themes are hidden; wide tables and blocks of code scroll within the page.
const STYLE: &str = r#"#mdbook-theme-rust, #mdbook-theme-coal, #mdbook-theme-ayu { display: none; }
.content main img { max-width: 100%; height: auto; }
.content main code { overflow-wrap: anywhere; }
.content main pre code { overflow-wrap: normal; }
.table-wrapper { overflow-x: auto; }
"#;

/// Makes the site, and says where it is.
pub(crate) fn run() -> Result<(), String> {
    let all = pages(root()).map_err(|error| format!("the pages: {error}"))?;
    report(&breaches(&all, |path| root().join(path).exists()))?;
    let source = target_folder().join("site-src");
    let shown: Vec<&Page> = all.iter().filter(|page| is_shown(&page.path)).collect();
    write_source(&source, &shown).map_err(|error| format!("{}: {error}", source.display()))?;
    let mdbook = mdbook()?;
    let status = Command::new(&mdbook).arg("build").arg(&source).status();
    succeeded(status.map_err(|error| format!("{}: {error}", mdbook.display()))?)?;
    let site = target_folder().join("site");
    report(&site::breaches(&site).map_err(|error| format!("{}: {error}", site.display()))?)?;
    println!("docs: {} pages, in {}", shown.len(), site.join("index.html").display());
    Ok(())
}

fn report(breaches: &[String]) -> Result<(), String> {
    breaches.iter().for_each(|breach| eprintln!("{breach}"));
    if breaches.is_empty() { Ok(()) } else { Err(format!("{} links lead nowhere", breaches.len())) }
}

fn is_shown(path: &str) -> bool {
    ROOT_PAGES.contains(&path) || path.starts_with(FOLDER)
}

/// Copies the pages and what they link, and adds the contents and the configuration.
fn write_source(source: &Path, shown: &[&Page]) -> std::io::Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    let pages = source.join("src");
    let mut linked = BTreeSet::new();
    for page in shown {
        let targets = links(&page.text);
        let mut text = page.text.clone();
        for link in targets.iter().filter(|link| is_front_page(&page.path, &link.target)) {
            text = text
                .replace(&format!("]({}", link.target), &format!("]({}", link.target.replace(FRONT_PAGE, "index.md")));
        }
        write(&pages.join(&page.path), text.as_bytes())?;
        linked.extend(targets.iter().filter_map(|link| resolved(&page.path, &link.target)).map(|(path, _)| path));
    }
    for path in linked.iter().filter(|path| !path.is_empty() && !pages.join(path).exists()) {
        copy(&root().join(path), &pages.join(path))?;
    }
    write(&pages.join("SUMMARY.md"), contents::summary(shown).as_bytes())?;
    write(&source.join("book.toml"), BOOK.as_bytes())?;
    write(&source.join("site.css"), STYLE.as_bytes())
}

/// Whether a link leads to a front page of the site, which mdBook calls otherwise.
fn is_front_page(page: &str, target: &str) -> bool {
    resolved(page, target).is_some_and(|(path, _)| path.ends_with(FRONT_PAGE) && is_shown(&path))
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Copies a file, or the files of a folder.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_file() {
        return write(to, &fs::read(from)?);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The program, which is installed below the target directory if it is not there.
fn mdbook() -> Result<PathBuf, String> {
    let tools = target_folder().join("tools");
    let program = tools.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    let is_right = version.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim().ends_with(MDBOOK_VERSION));
    if !is_right {
        let tools = tools.display();
        cargo(&format!("install mdbook@{MDBOOK_VERSION} --locked --force --root {tools}"), &[])?;
    }
    Ok(program)
}
