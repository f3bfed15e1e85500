//! Counts the lines of Rust in the repository: code of the product and code of tests, by crate.
//!
//! A line of code is neither blank nor only a comment. Tests are the folders `tests`, the files that are named so, the
//! modules that are compiled for tests alone, and the crates that serve nothing else.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// The crates that serve tests alone.
const HARNESS: [&str; 3] = ["conformance", "faults", "trials"];

/// The crates of the services over a network, and what their sessions share.
const SERVICES: [&str; 6] = ["etcd", "redis", "session", "sql", "tls", "zookeeper"];

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Lines {
    product: usize,
    tests: usize,
    /// All lines, with comments and blank ones.
    all: usize,
}

impl Lines {
    fn add(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
        self.all += other.all;
    }
}

/// Prints the lines of each crate, and the sums.
pub(crate) fn run() -> Result<(), String> {
    count().map(|crates| tell(&crates)).map_err(|error| error.to_string())
}

fn count() -> io::Result<BTreeMap<String, Lines>> {
    let listed =
        Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]).output()?;
    if !listed.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
    }
    let mut crates = BTreeMap::<String, Lines>::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        // One that was deleted is listed until that is committed.
        let Ok(text) = fs::read_to_string(path) else { continue };
        crates.entry(crate_of(path).to_owned()).or_default().add(lines(path, &text));
    }
    Ok(crates)
}

fn tell(crates: &BTreeMap<String, Lines>) {
    println!("{:<14}{:>9}{:>9}{:>9}", "crate", "product", "tests", "lines");
    let row = |name: &str, lines: Lines| {
        println!("{name:<14}{:>9}{:>9}{:>9}", lines.product, lines.tests, lines.all);
    };
    let (mut services, mut all) = (Lines::default(), Lines::default());
    for (name, lines) in crates {
        row(name, *lines);
        all.add(*lines);
        if SERVICES.contains(&name.as_str()) {
            services.add(*lines);
        }
    }
    row("services", services);
    row("all", all);
}

/// `sql` of `crates/sql/src/lib.rs`, `xtask` of `xtask/src/main.rs`.
fn crate_of(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some(name), _) => name,
        _ => path,
    }
}

/// Counts the lines of one file.
fn lines(path: &str, text: &str) -> Lines {
    let is_test = |name: &str| name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs");
    let serves_tests =
        HARNESS.contains(&crate_of(path)) || Path::new(path).iter().any(|part| is_test(&part.to_string_lossy()));
    let mut counted = Lines { all: text.lines().count(), ..Lines::default() };
    let mut in_tests = false;
    let mut was_marked = false;
    for line in text.lines() {
        let code = line.trim();
        // The formatter puts the brace that ends a module at the start of its line.
        in_tests |= was_marked && line.starts_with("mod ") && line.ends_with('{');
        if !code.is_empty() && !code.starts_with("//") {
            let count = if serves_tests || in_tests { &mut counted.tests } else { &mut counted.product };
            *count += 1;
            was_marked = line.starts_with("#[cfg(") && line.contains("test)") || was_marked && line.starts_with("#[");
        }
        in_tests &= line != "}";
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_comments_and_tests() {
        let text = "//! A file.\n\nuse a;\n// why\nfn one() {}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn two() {}\n}\nfn three() {}\n";
        let counted = lines("crates/sql/src/a.rs", text);
        assert_eq!(counted, Lines { product: 4, tests: 3, all: 11 });
        assert_eq!(lines("crates/sql/tests/a.rs", text), Lines { product: 0, tests: 7, all: 11 });
        assert_eq!(lines("crates/faults/src/a.rs", text), Lines { product: 0, tests: 7, all: 11 });
        assert_eq!(lines("crates/sql/src/a_tests.rs", text).product, 0);
    }
}
