//! PostgreSQL: the text of the tables and functions, and how they are called. What all functions share is written once,
//! in `sql/part/`, and put in here.
//!
//! - `open`, `greeting`: how a server is connected to, and whether it can serve locks.
//! - `wire`, `call`, `refusal`: how a function is called, and why it may fail.
//! - `lent`, `pool`: the same over connections that others have too.
//! - `unasked`: what the server tells by itself.

mod call;
mod greeting;
mod lent;
mod open;
mod pool;
mod refusal;
mod unasked;
mod wire;

use crate::line;
use crate::schema::{FUNCTIONS, filled};

pub use pool::{PoolError, PostgresPool, TextRow};

pub(crate) use open::{connect, connect_over};
pub(crate) use wire::LISTENERS_MAX;

/// The functions that a client calls here alone.
const OWN_FUNCTIONS: [&str; 3] = ["rest", "pin", "reach"];

/// The functions that a client calls, without their version.
fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().chain(OWN_FUNCTIONS)
}

/// What each file of `sql/` is, in the order in which they are sent.
const FILES: [&str; 8] = [
    include_str!("postgres/sql/schema.sql"),
    include_str!("postgres/sql/triggers.sql"),
    include_str!("postgres/sql/sessions.sql"),
    include_str!("postgres/sql/liveness.sql"),
    include_str!("postgres/sql/queues.sql"),
    include_str!("postgres/sql/people.sql"),
    include_str!("postgres/sql/examine.sql"),
    include_str!("postgres/sql/values.sql"),
];

/// What stands for a part in the files. A part may name those that come after it.
const PARTS: [(&str, &str); 22] = [
    ("look", include_str!("postgres/sql/part/look.sql")),
    ("view_variables", include_str!("postgres/sql/part/view_variables.sql")),
    ("view", include_str!("postgres/sql/part/view.sql")),
    ("long_view", include_str!("postgres/sql/part/long_view.sql")),
    ("value", include_str!("postgres/sql/part/value.sql")),
    ("session_stands", include_str!("postgres/sql/part/session_stands.sql")),
    ("stale_or_gone", include_str!("postgres/sql/part/stale_or_gone.sql")),
    ("broken_and_asked", include_str!("postgres/sql/part/broken_and_asked.sql")),
    ("guard", include_str!("postgres/sql/part/guard.sql")),
    ("read_committed", include_str!("postgres/sql/part/read_committed.sql")),
    ("durable", include_str!("postgres/sql/part/durable.sql")),
    ("settled", include_str!("postgres/sql/part/settled.sql")),
    ("raise_ceiling", include_str!("postgres/sql/part/raise_ceiling.sql")),
    ("is_settled", include_str!("postgres/sql/part/is_settled.sql")),
    ("is_settled_row", include_str!("postgres/sql/part/is_settled_row.sql")),
    ("is_present", include_str!("postgres/sql/part/is_present.sql")),
    ("has_start", include_str!("postgres/sql/part/has_start.sql")),
    ("joined", include_str!("postgres/sql/part/joined.sql")),
    ("clock", include_str!("postgres/sql/part/clock.sql")),
    ("mark", "pg_current_xact_id()::xid"),
    ("answer", include_str!("postgres/sql/part/answer.sql")),
    // Names are found only where we mean them. A lock on a row is waited for as long as one holder of ours may need it.
    ("settings", "SET search_path = pg_catalog, {schema}, pg_temp SET lock_timeout = '2s'"),
];

/// After how many joins the first token of a queue is looked up: as many dead entries of an index each join may pass.
const JOINS_MAX: usize = 64;

/// Returns all that makes a schema, as one text.
fn set_up(schema: &str) -> String {
    let own = vec![
        // `Mode::Read`.
        ("mode_read", 1.to_string()),
        ("joins", JOINS_MAX.to_string()),
        ("channel", channel_prefix(schema)),
    ];
    filled(FILES.join("\n"), &PARTS, own, schema)
}

/// Returns the same for the database's own client, with the rights to give.
pub(crate) fn set_up_text(schema: &str) -> String {
    format!(
        "BEGIN;\n{}COMMIT;\n\
         -- The role `app` that locks needs no more than this, and one that only looks the last line alone:\n\
         -- {}\n\
         -- GRANT USAGE ON SCHEMA {schema} TO \"viewer\"; GRANT EXECUTE ON FUNCTION {schema}.inspect_v1, \
         {schema}.follow_v1, {schema}.queues_v1 TO \"viewer\";\n",
        set_up(schema),
        grants(schema, "app"),
    )
}

/// The statements that give a role what it needs.
fn grants(schema: &str, role: &str) -> String {
    let role = quoted(role);
    format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};")
}

/// An identifier as SQL has it.
fn quoted(name: &str) -> String {
    format!(r#""{}""#, name.replace('"', r#""""#))
}

/// Returns what the channels begin with on which sessions of a schema are told. Channels are of a database, not of a
/// schema, and their names are short: hence the hash (FNV-1a).
fn channel_prefix(schema: &str) -> String {
    let hash = schema.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("lk_{hash:08x}_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::assert_whole;

    #[test]
    fn the_text_of_a_schema_names_it_and_leaves_no_gap() {
        let text = set_up("some_locks");
        assert_whole(&text);
        for function in functions() {
            assert!(text.contains(&format!("FUNCTION some_locks.{function}_v1(")), "{function}");
        }
    }

    #[test]
    fn a_channel_has_the_name_that_every_client_gives_it() {
        assert_eq!(channel_prefix("lockkeeper"), "lk_721f138c_");
    }
}
