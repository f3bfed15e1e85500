//! The text of the tables and functions. What all functions share is written once, in `sql/part/`, and put in here.

use crate::session::{BRIEF, SESSION_TIMEOUT_MAX_DEFAULT};
use crate::statement::What;

/// The version of the tables. A function that changes its meaning gets a new name; a table is only added to.
pub(crate) const VERSION: i64 = 2;

/// The functions that a client calls, without their version.
pub(super) const FUNCTIONS: [&str; 25] = [
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
    "rest",
    "join",
    "leave",
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
    "pin",
];

/// What each file of `sql/` is, in the order in which they are sent.
const FILES: [&str; 8] = [
    include_str!("sql/schema.sql"),
    include_str!("sql/triggers.sql"),
    include_str!("sql/sessions.sql"),
    include_str!("sql/liveness.sql"),
    include_str!("sql/queues.sql"),
    include_str!("sql/people.sql"),
    include_str!("sql/examine.sql"),
    include_str!("sql/values.sql"),
];

/// What stands for a part in the files. A part may name those that come after it.
const PARTS: [(&str, &str); 15] = [
    ("look", include_str!("sql/part/look.sql")),
    ("view_variables", include_str!("sql/part/view_variables.sql")),
    ("view", include_str!("sql/part/view.sql")),
    ("long_view", include_str!("sql/part/long_view.sql")),
    ("value", include_str!("sql/part/value.sql")),
    ("session_stands", include_str!("sql/part/session_stands.sql")),
    ("stale_or_gone", include_str!("sql/part/stale_or_gone.sql")),
    ("broken_and_asked", include_str!("sql/part/broken_and_asked.sql")),
    ("guard", include_str!("sql/part/guard.sql")),
    ("settled", include_str!("sql/part/settled.sql")),
    ("is_settled", include_str!("sql/part/is_settled.sql")),
    ("is_present", include_str!("sql/part/is_present.sql")),
    ("mark", "pg_current_xact_id()::xid"),
    ("answer", include_str!("sql/part/answer.sql")),
    // Names are found only where we mean them. A lock on a row is waited for as long as one holder of ours may need it.
    ("settings", "SET search_path = pg_catalog, {schema}, pg_temp SET lock_timeout = '2s'"),
];

/// How many contenders a bounded view shows at least: the place, and those right ahead of it.
const NEAREST: usize = 17;

/// How many contenders ahead that are not shown are counted.
const COUNTED_MAX: usize = 1_000;

/// After how many joins the first token of a queue is looked up: as many dead entries of an index each join may pass.
const JOINS_MAX: usize = 64;

/// The number from which on a queue gives out no more: 2^40 tokens before the greatest.
const LAST_MAX: i64 = i64::MAX - (1 << 40) + 1;

/// Returns all that makes a schema, as one text.
pub(super) fn set_up(schema: &str) -> String {
    let mut text = FILES.join("\n");
    for (name, part) in PARTS {
        text = text.replace(&format!("{{{name}}}"), part.trim_end());
    }
    for (name, value) in constants(schema) {
        text = text.replace(&format!("{{{name}}}"), &value);
    }
    text
}

fn constants(schema: &str) -> Vec<(&'static str, String)> {
    let what = |what: What| (what as i16).to_string();
    vec![
        ("what_stored", what(What::Stored)),
        ("what_stands", what(What::Stands)),
        ("what_broken", what(What::Broken)),
        ("what_asked", what(What::Asked)),
        ("what_missing", what(What::Missing)),
        ("what_beat", what(What::Beat)),
        ("what_contender", what(What::Contender)),
        ("what_omitted", what(What::Omitted)),
        ("what_elsewhere", what(What::Elsewhere)),
        ("what_value", what(What::Value)),
        ("what_queue", what(What::Queue)),
        ("what_owner", what(What::Owner)),
        ("what_fact", what(What::Fact)),
        ("what_placed", what(What::Placed)),
        // `Mode::Read`.
        ("mode_read", 1.to_string()),
        ("nearest", NEAREST.to_string()),
        ("counted", COUNTED_MAX.to_string()),
        ("joins", JOINS_MAX.to_string()),
        ("last_max", LAST_MAX.to_string()),
        ("timeout_max_ms", SESSION_TIMEOUT_MAX_DEFAULT.as_millis().to_string()),
        ("brief_ms", BRIEF.as_millis().to_string()),
        ("version", VERSION.to_string()),
        ("channel", channel_prefix(schema)),
        ("schema", schema.to_owned()),
    ]
}

/// Returns what the channels begin with on which sessions of a schema are told. Channels are of a database, not of a
/// schema, and their names are short: hence the hash (FNV-1a).
pub(super) fn channel_prefix(schema: &str) -> String {
    let hash = schema.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("lk_{hash:08x}_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_schema_names_it_and_leaves_no_gap() {
        let text = set_up("some_locks");
        let gap = text.split('{').skip(1).find(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
        assert_eq!(gap.map(|rest| rest.lines().next()), None);
        assert!(text.contains("CREATE TABLE IF NOT EXISTS some_locks.contender"));
        for function in FUNCTIONS {
            assert!(text.contains(&format!("FUNCTION some_locks.{function}_v1(")), "{function}");
        }
    }

    #[test]
    fn a_channel_has_the_name_that_every_client_gives_it() {
        assert_eq!(channel_prefix("lockkeeper"), "lk_721f138c_");
    }
}
