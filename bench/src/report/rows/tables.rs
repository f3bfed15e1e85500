//! The tables together, and how a row is found.

use super::super::row::{Group, Row};
use super::{etcd, file, following, memory, redis, run, server, sql, zookeeper};

/// The tables, in the order of the report.
const TABLES: &[&[Row]] = &[
    memory::ROWS,
    file::ROWS,
    run::ROWS,
    zookeeper::ROWS,
    etcd::ROWS,
    redis::ROWS,
    sql::ROWS,
    server::ROWS,
    following::ROWS,
];

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

    use super::super::super::row::Bound;
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
    fn a_row_that_is_judged_by_its_ratio_has_a_peer() {
        for row in all() {
            let is_judged_by_its_ratio = matches!(row.bound, Bound::RatioAtLeast(_) | Bound::RatioAtMost(_));
            assert!(!is_judged_by_its_ratio || row.has_peer(), "{row:?}");
        }
    }
}
