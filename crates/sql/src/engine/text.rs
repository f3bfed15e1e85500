//! The common part of the texts of tables and functions: which functions there are, and the numbers in them.

use crate::session::{BRIEF, SESSION_TIMEOUT_MAX_DEFAULT};
use crate::statement::What;

/// The version of the tables. A function that changes its meaning gets a new name; a table is only added to.
pub(crate) const VERSION: i64 = 2;

/// The functions that a client calls, without their version.
pub(crate) const FUNCTIONS: [&str; 24] = [
    "greet",
    "settle",
    "doubt",
    "limit",
    "open",
    "resume",
    "beat",
    "reap",
    "close",
    "listen",
    "join",
    "leave",
    "leave_all",
    "look",
    "missing",
    "watch",
    "unwatch",
    "value",
    "set_value",
    "request",
    "inspect",
    "inspect_all",
    "queues",
    "examine",
];

/// How many contenders a bounded view shows at least: the place, and those right ahead of it.
pub(crate) const NEAREST: usize = 17;

/// How many contenders ahead that are not shown are counted.
const COUNTED_MAX: usize = 1_000;

/// The number from which on a queue gives out no more: 2^40 tokens before the greatest.
const LAST_MAX: i64 = i64::MAX - (1 << 40) + 1;

/// Puts the parts that a text names into it, and then what is named in braces; a part may name those that come after
/// it. `own` is what one kind of database has alone.
pub(crate) fn filled(text: String, parts: &[(&str, &str)], own: Vec<(&str, String)>, schema: &str) -> String {
    let text = parts.iter().fold(text, |text, (name, part)| text.replace(&format!("{{{name}}}"), part.trim_end()));
    let kinds = What::ALL.map(|what| (format!("what_{what:?}").to_lowercase(), (what as i16).to_string()));
    let common = [
        ("nearest", NEAREST.to_string()),
        ("counted", COUNTED_MAX.to_string()),
        ("last_max", LAST_MAX.to_string()),
        ("timeout_max_ms", SESSION_TIMEOUT_MAX_DEFAULT.as_millis().to_string()),
        ("brief_ms", BRIEF.as_millis().to_string()),
        ("version", VERSION.to_string()),
        ("schema", schema.to_owned()),
    ];
    let named = own.into_iter().chain(common).map(|(name, value)| (name.to_owned(), value));
    kinds.into_iter().chain(named).fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
}

/// Makes sure that the text of the schema `some_locks` names it and leaves no gap.
#[cfg(test)]
pub(crate) fn assert_whole(text: &str) {
    let gap = text.split('{').skip(1).find(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
    assert_eq!(gap.map(|rest| rest.lines().next()), None);
    assert!(text.contains("CREATE TABLE IF NOT EXISTS some_locks.contender"));
}
