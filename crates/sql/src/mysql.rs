//! MariaDB and MySQL: the text of the tables and procedures, and how they are called. What all procedures share is
//! written once, in `sql/part/`, and put in here.
//!
//! - `open`, `access`, `greeting`: how a server is connected to, and whether it can serve locks.
//! - `wire`, `call`, `refusal`: how a procedure is called, and why it may fail.
//! - `named_lock`: how a waiter is woken.

mod access;
mod call;
mod greeting;
mod named_lock;
mod open;
mod refusal;
mod wire;

use crate::schema::{NEAREST, filled};

pub(crate) use open::connect;

/// What each file of `sql/` is, in the order in which they are sent. The last one says that all is there.
const FILES: [&str; 8] = [
    include_str!("mysql/sql/schema.sql"),
    include_str!("mysql/sql/sessions.sql"),
    include_str!("mysql/sql/liveness.sql"),
    include_str!("mysql/sql/queues.sql"),
    include_str!("mysql/sql/people.sql"),
    include_str!("mysql/sql/examine.sql"),
    include_str!("mysql/sql/values.sql"),
    include_str!("mysql/sql/version.sql"),
];

/// What stands for a part in the files. A part may name those that come after it.
const PARTS: [(&str, &str); 31] = [
    ("look", include_str!("mysql/sql/part/look.sql")),
    ("view_variables", include_str!("mysql/sql/part/view_variables.sql")),
    ("view", include_str!("mysql/sql/part/view.sql")),
    ("long_view", include_str!("mysql/sql/part/long_view.sql")),
    ("ahead", include_str!("mysql/sql/part/ahead.sql")),
    ("behind", include_str!("mysql/sql/part/behind.sql")),
    ("beyond", include_str!("mysql/sql/part/beyond.sql")),
    ("value", include_str!("mysql/sql/part/value.sql")),
    ("lock_queue", include_str!("mysql/sql/part/lock_queue.sql")),
    ("session_stands", include_str!("mysql/sql/part/session_stands.sql")),
    ("stale_or_gone", include_str!("mysql/sql/part/stale_or_gone.sql")),
    ("session_ends", include_str!("mysql/sql/part/session_ends.sql")),
    ("interrupted", include_str!("mysql/sql/part/interrupted.sql")),
    ("broken_and_asked", include_str!("mysql/sql/part/broken_and_asked.sql")),
    ("missing", include_str!("mysql/sql/part/missing.sql")),
    ("each", include_str!("mysql/sql/part/each.sql")),
    ("nth", include_str!("mysql/sql/part/nth.sql")),
    ("take_door", include_str!("mysql/sql/part/take_door.sql")),
    ("door", include_str!("mysql/sql/part/door.sql")),
    ("ok", include_str!("mysql/sql/part/ok.sql")),
    ("settled", include_str!("mysql/sql/part/settled.sql")),
    ("is_settled", include_str!("mysql/sql/part/is_settled.sql")),
    ("is_settled_row", include_str!("mysql/sql/part/is_settled_row.sql")),
    ("run", include_str!("mysql/sql/part/run.sql")),
    ("begin", include_str!("mysql/sql/part/begin.sql")),
    ("begin_look", include_str!("mysql/sql/part/begin_look.sql")),
    ("joined", include_str!("mysql/sql/part/joined.sql")),
    ("now", include_str!("mysql/sql/part/now.sql")),
    ("digits", include_str!("mysql/sql/part/digits.sql")),
    ("settings", "SQL SECURITY DEFINER MODIFIES SQL DATA"),
    ("procedure", PROCEDURE),
];

/// What ends each statement: a line with this.
const END: &str = "\n//\n";

/// How a procedure begins.
const PROCEDURE: &str = "CREATE PROCEDURE";

/// The settings of a server that an examination reads. Each server has only some of them.
const VARIABLES: &str = "'version', 'version_comment', 'aurora_version', 'read_only', 'innodb_read_only', \
    'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format', 'wsrep_on', \
    'group_replication_group_name', 'group_replication_single_primary_mode', 'max_connections', \
    'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled'";

/// What a server counts that an examination reads, likewise.
const COUNTERS: &str = "'threads_connected', 'slaves_connected', 'rpl_semi_sync_master_status', \
    'rpl_semi_sync_source_status', \
    'wsrep_cluster_size'";

/// Returns the statements that make a schema, in their order.
fn set_up(schema: &str) -> Vec<String> {
    let own = vec![
        ("nearest_but_one", (NEAREST - 1).to_string()),
        ("variables", VARIABLES.to_owned()),
        ("counters", COUNTERS.to_owned()),
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

/// Returns the same as one text for the database's own client, with the rights to give.
pub(crate) fn set_up_text(schema: &str) -> String {
    let statements: String = set_up(schema).into_iter().map(|statement| statement + END).collect();
    let viewer = ["inspect", "follow", "queues"]
        .map(|procedure| format!("GRANT EXECUTE ON PROCEDURE `{schema}`.`{procedure}_v1` TO 'viewer'@'%';"));
    format!(
        "SET NAMES utf8mb4;\n{MODE};\nDELIMITER //\n{statements}DELIMITER ;\n\
         -- The user `app` that locks needs no more than this, and one that only looks the last line alone:\n\
         -- {}\n\
         -- {}\n",
        grants(schema, "app@%"),
        viewer.join(" ")
    )
}

/// The statement that gives a user what it needs. In the name of a database, `_` stands for any letter.
fn grants(schema: &str, user: &str) -> String {
    let schema = schema.replace('_', r"\_");
    let (name, host) = user.rsplit_once('@').unwrap_or((user, "%"));
    let quoted = |word: &str| format!("'{}'", word.replace('\\', r"\\").replace('\'', "''"));
    format!("GRANT EXECUTE ON `{schema}`.* TO {}@{};", quoted(name), quoted(host))
}

/// How the server reads the text: procedures keep it.
const MODE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{FUNCTIONS, assert_whole};

    #[test]
    fn the_text_of_a_schema_names_it_and_leaves_no_gap() {
        let text = set_up_text("some_locks");
        assert_whole(&text);
        for procedure in FUNCTIONS {
            assert!(text.contains(&format!("PROCEDURE some_locks.{procedure}_v1(")), "{procedure}");
            assert!(text.contains(&format!("DROP PROCEDURE IF EXISTS some_locks.{procedure}_v1\n")), "{procedure}");
        }
    }

    /// A look at one that has others first takes it for another program's.
    #[test]
    fn a_schema_that_is_being_made_is_known_to_be_ours_by_its_first_procedure() {
        let made = set_up("some_locks");
        let first = made.iter().find_map(|statement| statement.split_once(PROCEDURE));
        assert!(first.is_some_and(|(_, text)| text.starts_with(" some_locks.schema_version()")), "{first:?}");
    }

    #[test]
    fn rights_are_told_as_a_statement() {
        assert_eq!(grants("my_locks", "o'app@10.%"), r"GRANT EXECUTE ON `my\_locks`.* TO 'o''app'@'10.%';");
    }
}
