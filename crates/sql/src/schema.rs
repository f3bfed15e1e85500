//! Our schema: its version, its functions and the numbers in their texts, and refusals of servers and schemas of all
//! kinds that cannot serve locks.

use std::time::Duration;

use lockkeeper_core::Part;
use lockkeeper_session::{Effect, Failure, FailureKind};

use crate::statement::{RowKind, part_number};
use crate::timing::{BRIEF, SESSION_TIMEOUT_MAX_DEFAULT};

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
    "follow",
    "queues",
    "examine",
];

/// How many contenders a bounded view shows at least: the place, and those right ahead of it.
pub(crate) const NEAREST: usize = 17;

/// How many contenders ahead that are not shown are counted.
const COUNTED_MAX: usize = 1_000;

/// The number from which on a queue gives out no more: 2^40 tokens before the greatest.
const LAST_MAX: i64 = i64::MAX - (1 << 40) + 1;

/// For how long a queue rests until its count of joins begins anew. So a follower need know the counts of no queue that
/// rests for longer: it looks more often than that.
pub(crate) const COUNT_REST: Duration = Duration::from_secs(600);

/// How long before a look the joins that it is the first to show may have begun: a row is waited for that long at most,
/// and the disk.
const JOIN_LATE_MAX: Duration = Duration::from_secs(5);

/// By how many bits a number of the clock, which tokens follow, is more than milliseconds.
const CLOCK_BITS: u32 = 20;

/// The time that a number of the clock has, in milliseconds since 1970.
pub(crate) const fn time_ms(number: i64) -> i64 {
    number >> CLOCK_BITS
}

/// Puts the parts that a text names into it, and then what is named in braces; a part may name those that come after
/// it. `own` is what one kind of database has alone.
pub(crate) fn filled(text: String, parts: &[(&str, &str)], own: Vec<(&str, String)>, schema: &str) -> String {
    let text = parts.iter().fold(text, |text, (name, part)| text.replace(&format!("{{{name}}}"), part.trim_end()));
    let kinds = RowKind::ALL.map(|what| (format!("what_{what:?}").to_lowercase(), (what as i16).to_string()));
    let common = [
        ("nearest", NEAREST.to_string()),
        ("counted", COUNTED_MAX.to_string()),
        ("last_max", LAST_MAX.to_string()),
        ("timeout_max_ms", SESSION_TIMEOUT_MAX_DEFAULT.as_millis().to_string()),
        ("rest", (COUNT_REST.as_millis() << CLOCK_BITS).to_string()),
        ("late", (JOIN_LATE_MAX.as_millis() << CLOCK_BITS).to_string()),
        ("part_gate", part_number(Part::Waiters).to_string()),
        ("brief_ms", BRIEF.as_millis().to_string()),
        ("version", VERSION.to_string()),
        ("schema", schema.to_owned()),
    ];
    let named = own.into_iter().chain(common).map(|(name, value)| (name.to_owned(), value));
    kinds.into_iter().chain(named).fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), &value))
}

/// The state of our schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Schema {
    Ready,
    /// It is to be made, or this user may not see it.
    Missing,
    /// It lacks functions that we call: it is of an older version, or a newer one that has given them up.
    Incomplete,
}

/// Refuses what cannot be used for locks.
pub(crate) fn unsupported(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unsupported, Effect::None, message)
}

/// Refuses a server that only reads at present.
pub(crate) fn only_reads(message: &str) -> Failure {
    Failure::new(FailureKind::ReadOnly, Effect::None, message)
}

/// Refuses a server that speaks a kind's protocol, and does not lock rows as that kind does or was not tested.
pub(crate) fn look_alike(name: &str, kind: &str) -> Failure {
    unsupported(format!(
        "this is {name}, and locks here need {kind} itself; with `server=unverified` in the URL it is tried, and locks \
         on it are best effort"
    ))
}

/// Says that a place for our tables, such as `the schema `lk``, is used for others.
pub(crate) fn of_another(place: &str) -> Failure {
    let message = format!("{place} is another program's: name one by `schema`");
    Failure::new(FailureKind::Settings, Effect::None, message)
}

/// Says that the schema, whose version is this, lacks functions. `hidden` is what is said if it is of this version.
pub(crate) fn incomplete(schema: &str, version: Option<i64>, hidden: Option<String>) -> Failure {
    let older = "`lockkeeper setup` brings it up to date";
    let (is, cure) = match (version, hidden) {
        (Some(VERSION), Some(cure)) => ("without, or hides from this user, what".to_owned(), cure),
        (Some(version), _) if version > VERSION => {
            (format!("of the newer version {version}, and no longer has what"), "use a newer Lockkeeper".to_owned())
        }
        (Some(version), _) => (format!("of version {version}, and lacks what"), older.to_owned()),
        (None, _) => ("incomplete, and lacks what".to_owned(), older.to_owned()),
    };
    unsupported(format!("{schema} is {is} this Lockkeeper of version {VERSION} calls: {cure}"))
}

/// Makes sure that the text of the schema `some_locks` names it and leaves no gap.
#[cfg(test)]
pub(crate) fn assert_whole(text: &str) {
    let gap = text.split('{').skip(1).find(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
    assert_eq!(gap.map(|rest| rest.lines().next()), None);
    assert!(text.contains("CREATE TABLE IF NOT EXISTS some_locks.contender"));
}
