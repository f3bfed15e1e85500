//! All rows and their budgets, one table a group. What a row means is said by its words; how it is measured, by its
//! group.

mod etcd;
mod file;
mod memory;
mod redis;
mod run;
mod server;
mod sql;
mod zookeeper;

use super::row::{Bound, Group, Row, Unit};

/// The server of rows that need none.
pub(crate) const NO_SERVER: &str = "-";

/// The real servers.
pub(crate) const ETCD: &str = "etcd";
pub(crate) const REDIS: &str = "Redis";
pub(crate) const REDIS_AOF: &str = "Redis, AOF";
pub(crate) const POSTGRES: &str = "PostgreSQL";
pub(crate) const MARIADB: &str = "MariaDB";
pub(crate) const APACHE: &str = "Apache alone";
pub(crate) const APACHE_3: &str = "Apache × 3";
pub(crate) const EMBEDDED: &str = "embedded";

/// Peers' names, as they are written in the table.
const STRICT: &str = "Strict";
const NONE: &str = "";

/// Words that several rows share.
const ALONE: &str = "uncontended lock + release";
const ALONE_LOCAL: &str = "uncontended lock + release, Local";
const CROWD_LOCAL: &str = "32 tasks, one lock, Local";
const STICKY: &str = "Sticky, one task, with an observer";

/// The tables, in the order of the report.
const TABLES: &[&[Row]] =
    &[memory::ROWS, file::ROWS, run::ROWS, zookeeper::ROWS, etcd::ROWS, redis::ROWS, sql::ROWS, server::ROWS];

/// The columns of a table in their order.
const fn row(
    group: Group,
    id: &'static str,
    server: &'static str,
    what: &'static str,
    peer_name: &'static str,
    unit: Unit,
    bound: Bound,
) -> Row {
    Row { group, id, server, what, peer_name, unit, bound }
}

/// All rows, those of one group together.
fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().copied().flatten()
}

/// The row of a group with this id and server.
pub(crate) fn find(group: Group, id: &str, server: &str) -> Option<&'static Row> {
    all().find(|row| row.group == group && row.id == id && row.server == server)
}

/// All rows of these groups.
pub(crate) fn of(groups: &[Group]) -> impl Iterator<Item = &'static Row> {
    all().filter(move |row| groups.contains(&row.group))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_row_is_there_once() {
        for (index, one) in all().enumerate() {
            let is_same = |row: &Row| (row.group, row.id, row.server) == (one.group, one.id, one.server);
            assert_eq!(all().position(is_same), Some(index), "{one:?}");
        }
    }

    #[test]
    fn each_group_has_one_table_and_no_table_has_two_groups() {
        let tables: Vec<Group> = TABLES.iter().map(|table| table[0].group).collect();
        assert_eq!(tables, Group::value_variants());
        assert!(TABLES.iter().all(|table| table.iter().all(|row| row.group == table[0].group)));
    }

    #[test]
    fn a_row_that_is_judged_by_its_ratio_or_only_read_has_a_peer() {
        for row in all() {
            let is_judged_alone = matches!(row.bound, Bound::OursAtLeast(_) | Bound::OursAtMost(_));
            assert!(is_judged_alone || row.has_peer(), "{row:?}");
        }
    }
}
