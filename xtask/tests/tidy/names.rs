//! The rule for the names of types: one name has one meaning, so that a reader who has met a word knows it.
//!
//! It reads the declarations of what is shipped that begin a line. A module that mirrors another names its types alike.

use std::collections::BTreeMap;

use crate::assert_none;
use crate::sources::{Source, sources};

/// Names that several crates have since each fills the same role, and the role.
const ROLES: &[(&str, &str)] = &[
    ("Config", "the settings of a service's URL, as its backend reads them"),
    ("Connection", "a socket to one server, with the protocol on it"),
    ("Core", "the shared state of a session"),
    ("Driver", "the task that keeps a session or a connection"),
    ("Failure", "why one attempt failed, which another may mend"),
    ("Following", "the follower of a service"),
    ("Layout", "where and how a queue lies at a service"),
    ("Onlooker", "looks without a session"),
    ("Queues", "the engine's `Service` over one kind of server"),
    ("Timing", "the rule by which a session is believed"),
];

/// How many names may be shared. More of them would be a vocabulary with two meanings a word.
const ROLES_MAX: usize = 15;

/// Modules that mirror others on purpose: the types of `lockkeeper` without `async`, and the meter that counts nothing.
const MIRRORS: &[&str] = &["crates/lockkeeper/src/blocking/", "crates/recipes/src/event/meter/off"];

/// Crates that ship nothing.
const NOT_SHIPPED: &[&str] =
    &["bench/", "crates/conformance/", "crates/faults/", "crates/rivals/", "crates/trials/", "pictures/", "xtask/"];

pub(crate) fn is_shipped(path: &str) -> bool {
    let is_test = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    path.ends_with(".rs")
        && path.contains("/src/")
        && !path.split('/').any(is_test)
        && !MIRRORS.iter().chain(NOT_SHIPPED).any(|folder| path.starts_with(*folder))
}

/// The name of the type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The names that several files declare, and these files.
fn shared(sources: &[Source]) -> BTreeMap<&str, Vec<&str>> {
    let mut files = BTreeMap::<_, Vec<_>>::new();
    for source in sources.iter().filter(|source| is_shipped(&source.path)) {
        let code = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in code.lines().filter_map(declared) {
            files.entry(name).or_default().push(source.path.as_str());
        }
    }
    files.retain(|_, files| files.len() > 1);
    files
}

fn breaches(sources: &[Source]) -> Vec<String> {
    let meant_twice = shared(sources).into_iter().filter(|(name, _)| !ROLES.iter().any(|(role, _)| role == name));
    meant_twice.map(|(name, files)| format!("{name} has several meanings; rename: {}", files.join(", "))).collect()
}

#[test]
fn a_type_name_has_one_meaning() {
    let sources = sources();
    let shared = shared(&sources);
    assert!(ROLES.len() <= ROLES_MAX, "{} names are shared, {ROLES_MAX} at most", ROLES.len());
    let unused = ROLES.iter().filter(|(role, _)| !shared.contains_key(role));
    assert_none(&unused.map(|(role, _)| format!("{role} is no shared name: strike it from ROLES")).collect::<Vec<_>>());
    assert_none(&breaches(&sources));
}

#[test]
fn planted_names_are_reported() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let first = source("crates/a/src/x.rs", "pub(crate) struct Seen<T> {}\n");
    let found = |path: &str, text: &str| breaches(&[source(&first.path, &first.text), source(path, text)]).len();
    for text in ["enum Seen {}\n", "pub trait Seen: Send {}\n", "pub(in crate::a) type Seen = u8;\n", "struct Seen;\n"]
    {
        assert_eq!(found("crates/b/src/y.rs", text), 1, "{text}");
        assert_eq!(found("crates/a/src/tests/y.rs", text), 0, "{text}");
        assert_eq!(found("crates/faults/src/y.rs", text), 0, "{text}");
    }
    for text in ["enum SeenLock {}\n", "// struct Seen\n", "    struct Seen;\n", "fn seen() -> Seen {}\n"] {
        assert_eq!(found("crates/b/src/y.rs", text), 0, "{text}");
    }
}
