//! The text of the tables and procedures. What all procedures share is written once, in `sql/part/`, and put in here.

use crate::engine::text::{NEAREST, filled};

/// What each file of `sql/` is, in the order in which they are sent. The last one says that all is there.
const FILES: [&str; 8] = [
    include_str!("sql/schema.sql"),
    include_str!("sql/sessions.sql"),
    include_str!("sql/liveness.sql"),
    include_str!("sql/queues.sql"),
    include_str!("sql/people.sql"),
    include_str!("sql/examine.sql"),
    include_str!("sql/values.sql"),
    include_str!("sql/version.sql"),
];

/// What stands for a part in the files. A part may name those that come after it.
const PARTS: [(&str, &str); 29] = [
    ("look", include_str!("sql/part/look.sql")),
    ("view_variables", include_str!("sql/part/view_variables.sql")),
    ("view", include_str!("sql/part/view.sql")),
    ("long_view", include_str!("sql/part/long_view.sql")),
    ("ahead", include_str!("sql/part/ahead.sql")),
    ("behind", include_str!("sql/part/behind.sql")),
    ("beyond", include_str!("sql/part/beyond.sql")),
    ("value", include_str!("sql/part/value.sql")),
    ("lock_queue", include_str!("sql/part/lock_queue.sql")),
    ("session_stands", include_str!("sql/part/session_stands.sql")),
    ("stale_or_gone", include_str!("sql/part/stale_or_gone.sql")),
    ("session_ends", include_str!("sql/part/session_ends.sql")),
    ("interrupted", include_str!("sql/part/interrupted.sql")),
    ("broken_and_asked", include_str!("sql/part/broken_and_asked.sql")),
    ("missing", include_str!("sql/part/missing.sql")),
    ("each", include_str!("sql/part/each.sql")),
    ("nth", include_str!("sql/part/nth.sql")),
    ("take_door", include_str!("sql/part/take_door.sql")),
    ("door", include_str!("sql/part/door.sql")),
    ("ok", include_str!("sql/part/ok.sql")),
    ("settled", include_str!("sql/part/settled.sql")),
    ("is_settled", include_str!("sql/part/is_settled.sql")),
    ("run", include_str!("sql/part/run.sql")),
    ("begin", include_str!("sql/part/begin.sql")),
    ("begin_look", include_str!("sql/part/begin_look.sql")),
    ("now", include_str!("sql/part/now.sql")),
    ("digits", include_str!("sql/part/digits.sql")),
    ("settings", "SQL SECURITY DEFINER MODIFIES SQL DATA"),
    ("procedure", PROCEDURE),
];

/// What ends each statement: a line with this.
const END: &str = "\n//\n";

/// How a procedure begins.
const PROCEDURE: &str = "CREATE PROCEDURE";

/// The settings of a server that an examination reads. Each server has only some of them.
const VARIABLES: [&str; 15] = [
    "version",
    "version_comment",
    "aurora_version",
    "read_only",
    "innodb_read_only",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "sync_binlog",
    "binlog_format",
    "wsrep_on",
    "group_replication_group_name",
    "group_replication_single_primary_mode",
    "max_connections",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
];

/// What a server counts that an examination reads, likewise.
const COUNTERS: [&str; 5] = [
    "threads_connected",
    "slaves_connected",
    "rpl_semi_sync_master_status",
    "rpl_semi_sync_source_status",
    "wsrep_cluster_size",
];

/// Returns the statements that make a schema, in their order.
pub(super) fn set_up(schema: &str) -> Vec<String> {
    let own = vec![
        ("nearest_but_one", (NEAREST - 1).to_string()),
        ("variables", list(&VARIABLES)),
        ("counters", list(&COUNTERS)),
    ];
    let text = filled(FILES.concat(), &PARTS, own, schema);
    let statements = text.split(END).map(str::trim).filter(|statement| !statement.is_empty());
    statements.flat_map(|statement| replaced(statement).into_iter().chain([statement.to_owned()])).collect()
}

/// Returns what makes room for a procedure. Only MariaDB can replace one in one statement.
fn replaced(statement: &str) -> Option<String> {
    let (_, rest) = statement.split_once(PROCEDURE)?;
    let (name, _) = rest.split_once('(')?;
    Some(format!("DROP PROCEDURE IF EXISTS{name}"))
}

/// Returns the same as one text for the database's own client.
pub(super) fn set_up_text(schema: &str) -> String {
    let statements: String = set_up(schema).into_iter().map(|statement| statement + END).collect();
    format!("SET NAMES utf8mb4;\n{MODE};\nDELIMITER //\n{statements}DELIMITER ;\n")
}

/// How the server reads the text: procedures keep it.
pub(super) const MODE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// Names as a list of SQL's texts.
fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::text::{FUNCTIONS, assert_whole};

    #[test]
    fn the_text_of_a_schema_names_it_and_leaves_no_gap() {
        let text = set_up_text("some_locks");
        assert_whole(&text);
        for procedure in FUNCTIONS {
            assert!(text.contains(&format!("PROCEDURE some_locks.{procedure}_v1(")), "{procedure}");
            assert!(text.contains(&format!("DROP PROCEDURE IF EXISTS some_locks.{procedure}_v1\n")), "{procedure}");
        }
    }
}
