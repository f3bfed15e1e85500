//! All rows and their budgets, as one table. What a row means is said by its words; how it is measured, by its group.

use super::row::{Bound, Group, Row, Unit};

use Bound::{OursAtLeast, OursAtMost, RatioAtLeast, RatioAtMost};
use Group::{File, Memory, Run};
use Unit::{Count, PerSecond, Seconds, Share};

/// The server of rows that need none.
pub(crate) const NO_SERVER: &str = "-";

/// Peers' names, as they are written in the table.
const STRICT: &str = "Strict";
const NONE: &str = "";

/// Words that several rows share.
const ALONE: &str = "uncontended lock + release";
const CROWD_LOCAL: &str = "32 tasks, one lock, Local";

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

/// The table. Rows of one group stand together, in the order of the report.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(Memory, "strict", NO_SERVER, "uncontended lock + release, Strict", NONE, PerSecond, OursAtLeast(600_000.0)),
    row(Memory, "sticky", NO_SERVER, "Sticky, one task, with an observer", NONE, PerSecond, OursAtLeast(1_000_000.0)),
    row(Memory, "crowd-local", NO_SERVER, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(Memory, "fairness", NO_SERVER, "least/most grants of one of 32 tasks, Local", NONE, Share, OursAtLeast(0.5)),
    row(Memory, "local-alone", NO_SERVER, "uncontended lock + release, Local", STRICT, Seconds, RatioAtMost(1.05)),
    row(Memory, "cancel", NO_SERVER, "cancel one of 10,000 local waiters", NONE, Seconds, OursAtMost(500e-9)),
    row(Memory, "loop", NO_SERVER, "grants in 0.5 s beside a task that loops", NONE, Count, OursAtLeast(500.0)),

    row(File, "bare", NO_SERVER, ALONE, "bare system calls", Seconds, RatioAtMost(3.0)),
    row(File, "crowd-local", NO_SERVER, CROWD_LOCAL, STRICT, PerSecond, RatioAtLeast(20.0)),
    row(File, "sticky", NO_SERVER, "Sticky, one task, with an observer", NONE, PerSecond, OursAtLeast(800_000.0)),
    row(File, "local-alone", NO_SERVER, "uncontended lock + release, Local", STRICT, Seconds, RatioAtMost(1.05)),

    row(Run, "flock", NO_SERVER, "lockkeeper run x -- true", "flock x true", Seconds, RatioAtMost(2.0)),
];

/// The row of a group with this id and server.
pub(crate) fn find(group: Group, id: &str, server: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.group == group && row.id == id && row.server == server)
}

/// All rows of these groups.
pub(crate) fn of(groups: &[Group]) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| groups.contains(&row.group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_once() {
        for (index, one) in ROWS.iter().enumerate() {
            let is_same = |row: &Row| (row.group, row.id, row.server) == (one.group, one.id, one.server);
            assert_eq!(ROWS.iter().position(is_same), Some(index), "{one:?}");
        }
    }

    #[test]
    fn a_row_with_a_peer_is_judged_by_its_ratio_and_one_without_by_its_own_figure() {
        for row in ROWS {
            match row.bound {
                RatioAtLeast(_) | RatioAtMost(_) => assert!(row.has_peer(), "{row:?}"),
                OursAtLeast(_) | OursAtMost(_) => assert!(!row.has_peer(), "{row:?}"),
            }
        }
    }
}
