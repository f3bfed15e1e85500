//! The README's Rust is real: each fenced `rust` snippet is an example of the library, which `cargo test` compiles.
//!
//! An example is shown whole, or, if it has the two marks, by what stands between the lines `// README: begin` and
//! `// README: end`, with the common indent taken away.

use std::fs;

use crate::{assert_none, root};

const EXAMPLES: &str = "crates/lockkeeper/examples";
const BEGIN: &str = "// README: begin";
const END: &str = "// README: end";

/// The fenced blocks of Rust in a Markdown text, each with the line at which it opens.
fn rust_snippets(markdown: &str) -> Vec<(usize, String)> {
    let mut snippets = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        // Every block is read to its end, so that a closing fence is never taken for an opening one.
        let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        if language.split(',').next() == Some("rust") {
            snippets.push((index + 1, block.join("\n")));
        }
    }
    snippets
}

/// The part of an example that the README shows.
fn shown(example: &str) -> String {
    let between = example.lines().skip_while(|line| line.trim() != BEGIN).skip(1);
    let region: Vec<&str> = between.take_while(|line| line.trim() != END).collect();
    if region.is_empty() {
        return example.trim_end().to_owned();
    }
    let indents = region.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let indent = indents.min().unwrap_or(0);
    region.iter().map(|line| line.get(indent..).unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The snippets that are not examples.
fn strangers(readme: &str, examples: &[String]) -> Vec<String> {
    rust_snippets(readme)
        .into_iter()
        .filter(|(_, snippet)| !examples.iter().any(|example| shown(example) == snippet.trim_end()))
        .map(|(line, _)| {
            format!(
                "README.md:{line}: this snippet is not a file of {EXAMPLES} or its `{BEGIN}` region: copy it from there"
            )
        })
        .collect()
}

#[test]
fn every_rust_snippet_of_the_readme_is_an_example() {
    let readme = fs::read_to_string(root().join("README.md"))
        .unwrap_or_else(|error| panic!("README.md is missing at the root: {error}"));
    let folder = fs::read_dir(root().join(EXAMPLES)).unwrap_or_else(|error| panic!("{EXAMPLES}: {error}"));
    let examples: Vec<String> = folder
        .map(|entry| entry.expect("an entry of the examples can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).expect("an example can be read"))
        .collect();
    assert!(!rust_snippets(&readme).is_empty(), "README.md shows the library in no fenced `rust` snippet");
    assert_none(&strangers(&readme, &examples));
}

#[test]
fn a_planted_snippet_that_is_no_example_is_reported() {
    let example =
        format!("//! Locks.\nfn main() {{\n    {BEGIN}\n    if true {{\n        lock();\n    }}\n    {END}\n}}\n");
    let examples = [example, "//! Whole.\nfn main() {}\n".to_owned()];
    let readme = "# Title\n```sh\nlockkeeper ls\n```\n```rust\nif true {\n    lock();\n}\n```\n\
        ```rust,no_run\n//! Whole.\nfn main() {}\n```\n";
    assert_eq!(rust_snippets(readme).len(), 2);
    assert_none(&strangers(readme, &examples));
    let changed = readme.replace("lock();", "unlock();");
    let found = strangers(&changed, &examples);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("README.md:5:"), "{found:?}");
}
