//! All rows and their budgets, one table a group. What a row means is said by its words; how it is measured, by its
//! group.

use super::row::Bound::{self, Informative, OursAtLeast, OursAtMost, RatioAtLeast, RatioAtMost};
use super::row::Unit::{self, Count, Mebibytes, PerSecond, Seconds, Share};
use super::row::{Group, Row};

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

/// The servers on which a row is measured.
type Servers = &'static [&'static str];

const NO_SERVERS: Servers = &[NO_SERVER];
const ALONE: Servers = &[APACHE];
const BOTH: Servers = &[APACHE, APACHE_3];
const THREE: Servers = &[APACHE, APACHE_3, EMBEDDED];

/// A line: its name, on which servers, what it shows, beside whom, in which unit, and its budget.
type Line = (&'static str, Servers, &'static str, &'static str, Unit, Bound);

/// Words that several rows share.
const FREE: &str = "uncontended lock + release";
const FREE_LOCAL: &str = "uncontended lock + release, Local";
const CROWD: &str = "32 tasks, one lock, Strict";
const CROWD_LOCAL: &str = "32 tasks, one lock, Local";
const FAIRNESS: &str = "least/most grants of one of 32 tasks, Local";
const STICKY: &str = "Sticky, one task, with an observer";
const COMMANDS: &str = "commands for each of these";
const HAND_OFF: &str = "one waiter, release to grant";
const HAND_OFF_1000: &str = "1,000 waiters, release to grant";
const STATEMENTS: &str = "1,000 waiters, statements";
const LOOKS: &str = "10,000 locks: part of a connection's time for looks";
const DROPPED: &str = "lock, released by drop: what the caller waits for";
const DROPPED_TIGHT: &str = "lock, released by drop: tight loop";

/// Peers' names, as they are written in the table.
const STRICT: &str = "Strict";
const NONE: &str = "";
const CLIENT: &str = "zookeeper-client";
const CURATOR: &str = "Curator";
const EACH: &str = "Curator, an instance a thread";
const SET_NX: &str = "SET NX PX";
const RETRIED: &str = "SET NX PX each 10 ms";
const SHEDLOCK: &str = "ShedLock's statements";
const ASKING: &str = "asking every 100 ms";
const JAVA: &str = "Apache";

#[rustfmt::skip]
const MEMORY_ROWS: &[Line] = &[
    ("strict", NO_SERVERS, "uncontended lock + release, Strict", NONE, PerSecond, OursAtLeast(600_000.0)),
    ("sticky", NO_SERVERS, STICKY, NONE, PerSecond, OursAtLeast(1_000_000.0)),
    ("crowd-local", NO_SERVERS, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    ("fairness", NO_SERVERS, FAIRNESS, NONE, Share, OursAtLeast(0.5)),
    ("local-alone", NO_SERVERS, FREE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    ("cancel", NO_SERVERS, "cancel one of 10,000 local waiters", NONE, Seconds, OursAtMost(500e-9)),
    ("records", NO_SERVERS, "metrics of a lock + release, no recorder", NONE, Seconds, OursAtMost(50e-9)),
    ("loop", NO_SERVERS, "grants in 0.5 s beside a task that loops", NONE, Count, OursAtLeast(500.0)),
];

#[rustfmt::skip]
const FILE_ROWS: &[Line] = &[
    ("bare", NO_SERVERS, FREE, "bare system calls", Seconds, RatioAtMost(3.0)),
    ("crowd-local", NO_SERVERS, CROWD_LOCAL, STRICT, PerSecond, RatioAtLeast(20.0)),
    ("sticky", NO_SERVERS, STICKY, NONE, PerSecond, OursAtLeast(800_000.0)),
    ("local-alone", NO_SERVERS, FREE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
];

#[rustfmt::skip]
const RUN_ROWS: &[Line] = &[
    ("flock", NO_SERVERS, "lockkeeper run x -- true", "flock x true", Seconds, RatioAtMost(1.7)),
];

#[rustfmt::skip]
const ZOOKEEPER_ROWS: &[Line] = &[
    ("bare", THREE, FREE, "bare socket, pipelined", Seconds, RatioAtMost(1.10)),
    ("curator", THREE, FREE, CURATOR, Seconds, RatioAtMost(0.75)),
    ("drop", THREE, DROPPED, CURATOR, Seconds, RatioAtMost(0.50)),
    ("drop-client", THREE, DROPPED, CLIENT, Seconds, RatioAtMost(1.0)),
    ("drop-tight", THREE, DROPPED_TIGHT, CURATOR, Seconds, RatioAtMost(0.50)),
    ("client", THREE, DROPPED_TIGHT, CLIENT, Seconds, RatioAtMost(1.0)),
    ("refused", THREE, "failed try_lock", CURATOR, Seconds, RatioAtMost(0.35)),
    ("local-alone", THREE, FREE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    ("requests", THREE, "requests of a pair, Local", STRICT, Count, RatioAtMost(1.0)),
    ("crowd-each", BOTH, CROWD, EACH, PerSecond, RatioAtLeast(1.0)),
    ("crowd-shared", &[APACHE], CROWD, "Curator, one instance", PerSecond, Informative),
    ("crowd-shared", &[APACHE_3], CROWD, "Curator, one instance", PerSecond, RatioAtLeast(2.0)),
    ("crowd-own", BOTH, "32 tasks, a lock each", CURATOR, PerSecond, RatioAtLeast(1.0)),
    ("local-rate", BOTH, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    ("local-curator", BOTH, CROWD_LOCAL, EACH, PerSecond, RatioAtLeast(300.0)),
    ("local-redis", BOTH, CROWD_LOCAL, "Redis, SET NX PX at once", PerSecond, RatioAtLeast(5.0)),
    ("fairness", BOTH, FAIRNESS, NONE, Share, OursAtLeast(0.5)),
    ("processes", ALONE, "8 processes of 8 tasks, Local", "Curator, 8 × 8 threads", PerSecond, RatioAtLeast(10.0)),
    ("processes-wait", ALONE, "their longest wait", "8 × 64 holds + 8 joins", Seconds, RatioAtMost(2.0)),
    ("processes-requests", ALONE, "their requests a grant", NONE, Count, OursAtMost(3.0)),
    ("sticky", BOTH, STICKY, NONE, PerSecond, OursAtLeast(1_000_000.0)),
    ("sticky-named", BOTH, "Sticky, one task, keeper.mutex(name) each time", NONE, PerSecond, OursAtLeast(500_000.0)),
    ("idle", ALONE, "lock behind an idle place", "a free lock", Seconds, RatioAtMost(4.5)),
    ("idle-blocked", ALONE, "the same, its runtime blocked", "a free lock", Seconds, RatioAtMost(10.0)),
    ("waiters", ALONE, "hand-off, Strict, 1,000 waiters", "10 waiters", Seconds, RatioAtMost(1.3)),
    ("readers", ALONE, "32 tasks, 95 % readers", CURATOR, PerSecond, RatioAtLeast(2.0)),
];

#[rustfmt::skip]
const ETCD_ROWS: &[Line] = &[
    ("mutex", &[ETCD], FREE, "clientv3 mutex", Seconds, RatioAtMost(1.0)),
    ("etcdctl", &[ETCD], FREE, "etcdctl lock", Seconds, RatioAtMost(0.65)),
];

/// How often a disk is written to is not ours to decide: with a log on the disk there is no budget.
#[rustfmt::skip]
const REDIS_ROWS: &[Line] = &[
    ("plain", &[REDIS], FREE, SET_NX, Seconds, RatioAtMost(1.3)),
    ("rslock", &[REDIS], FREE, "rslock", Seconds, RatioAtMost(1.1)),
    ("crowd-grants", &[REDIS], "grants in 2 s of 32 clients, held for 0 ms", RETRIED, Count, RatioAtLeast(1.0)),
    ("crowd-commands", &[REDIS], COMMANDS, RETRIED, Count, RatioAtMost(0.3)),
    ("crowd-grants-10ms", &[REDIS], "grants in 2 s of 32 clients, held for 10 ms", RETRIED, Count, RatioAtLeast(1.0)),
    ("crowd-commands-10ms", &[REDIS], COMMANDS, RETRIED, Count, RatioAtMost(0.3)),
    ("plain", &[REDIS_AOF], FREE, SET_NX, Seconds, Informative),
    ("rslock", &[REDIS_AOF], FREE, "rslock", Seconds, Informative),
];

/// The databases' own locks are not fenced and write nothing.
#[rustfmt::skip]
const SQL_ROWS: &[Line] = &[
    ("shedlock", &[POSTGRES], FREE, SHEDLOCK, Seconds, RatioAtMost(0.8)),
    ("advisory", &[POSTGRES], FREE, "pg_advisory_lock", Seconds, RatioAtMost(3.0)),
    ("one-waiter", &[POSTGRES], HAND_OFF, ASKING, Seconds, RatioAtMost(0.05)),
    ("thousand-waiters", &[POSTGRES], HAND_OFF_1000, "one waiter", Seconds, RatioAtMost(2.0)),
    ("thousand-statements", &[POSTGRES], STATEMENTS, ASKING, PerSecond, RatioAtMost(0.1)),
    ("beside", &[POSTGRES], "pgbench's commits beside 128 listeners", "without them", PerSecond, RatioAtLeast(0.9)),
    ("shedlock", &[MARIADB], FREE, SHEDLOCK, Seconds, RatioAtMost(1.5)),
    ("advisory", &[MARIADB], FREE, "GET_LOCK", Seconds, Informative),
    ("one-waiter", &[MARIADB], HAND_OFF, ASKING, Seconds, RatioAtMost(0.05)),
    ("thousand-waiters", &[MARIADB], HAND_OFF_1000, "one waiter", Seconds, RatioAtMost(2.0)),
    ("thousand-statements", &[MARIADB], STATEMENTS, ASKING, PerSecond, RatioAtMost(0.1)),
];

#[rustfmt::skip]
const SERVER_ROWS: &[Line] = &[
    ("writes", NO_SERVERS, "create + delete", JAVA, PerSecond, RatioAtLeast(3.0)),
    ("reads", NO_SERVERS, "reads", JAVA, PerSecond, RatioAtLeast(3.0)),
    ("memory", NO_SERVERS, "memory after that", JAVA, Mebibytes, RatioAtMost(0.05)),
    ("ready", NO_SERVERS, "started until it serves", JAVA, Seconds, OursAtMost(0.05)),
    ("large-memory", NO_SERVERS, "memory with a million nodes", JAVA, Mebibytes, RatioAtMost(0.5)),
    ("longest-write", NO_SERVERS, "longest write while snapshots are taken", JAVA, Seconds, RatioAtMost(1.0)),
    ("write", NO_SERVERS, "median write meanwhile", JAVA, Seconds, Informative),
    ("peak", NO_SERVERS, "peak of memory meanwhile / before", JAVA, Share, OursAtMost(1.3)),
    ("started", NO_SERVERS, "killed, and started with them", JAVA, Seconds, Informative),
];

#[rustfmt::skip]
const FOLLOWING_ROWS: &[Line] = &[
    ("told", NO_SERVERS, "5,000 locks, 100 changes a second: told after", NONE, Seconds, OursAtMost(0.010)),
    ("told", &[EMBEDDED, APACHE, ETCD, REDIS], "10,000 locks, 100 changes a second: told after", NONE, Seconds,
        OursAtMost(0.010)),
    ("looks", &[POSTGRES, MARIADB], LOOKS, NONE, Share, OursAtMost(0.010)),
];

/// The bound of memory is that of the history, 64 MiB, beside what ten thousand locks and the page's server take.
#[rustfmt::skip]
const MONITOR_ROWS: &[Line] = &[
    ("grants", &[EMBEDDED], "10,000 locks: grants", NONE, PerSecond, OursAtLeast(900.0)),
    ("memory", &[EMBEDDED], "the monitor's memory at its peak", NONE, Mebibytes, OursAtMost(192.0)),
    ("page", &[EMBEDDED], "page of the busiest lock, median", NONE, Seconds, OursAtMost(0.1)),
    ("page-last", &[EMBEDDED], "the same, when its history is longest", NONE, Seconds, OursAtMost(0.1)),
    ("core", &[EMBEDDED], "the monitor's part of a core", NONE, Share, OursAtMost(0.05)),
];

/// The tables, in the order of the report.
const TABLES: &[(Group, &[Line])] = &[
    (Group::Memory, MEMORY_ROWS),
    (Group::File, FILE_ROWS),
    (Group::Run, RUN_ROWS),
    (Group::ZooKeeper, ZOOKEEPER_ROWS),
    (Group::Etcd, ETCD_ROWS),
    (Group::Redis, REDIS_ROWS),
    (Group::Sql, SQL_ROWS),
    (Group::Server, SERVER_ROWS),
    (Group::Following, FOLLOWING_ROWS),
    (Group::Monitor, MONITOR_ROWS),
];

/// All rows of these groups, those of one group together.
pub(crate) fn of(groups: &[Group]) -> impl Iterator<Item = Row> {
    let tables = TABLES.iter().filter(|(group, _)| groups.contains(group));
    tables.flat_map(|(group, lines)| lines.iter().flat_map(|line| rows(*group, line)))
}

fn rows(group: Group, &(id, servers, what, peer_name, unit, bound): &'static Line) -> impl Iterator<Item = Row> {
    servers.iter().map(move |server| Row { group, id, server, what, peer_name, unit, bound })
}

pub(crate) fn find(group: Group, id: &str, server: &str) -> Option<Row> {
    of(&[group]).find(|row| row.id == id && row.server == server)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_row_is_there_once() {
        let mut keys: Vec<_> = of(Group::value_variants()).map(|row| (row.group, row.id, row.server)).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn each_group_has_one_table() {
        assert!(TABLES.iter().map(|(group, _)| group).eq(Group::value_variants()));
    }

    #[test]
    fn a_row_that_is_judged_by_its_ratio_has_a_peer() {
        for row in of(Group::value_variants()) {
            let is_judged_by_its_ratio = matches!(row.bound, RatioAtLeast(_) | RatioAtMost(_));
            assert!(!is_judged_by_its_ratio || row.has_peer(), "{row:?}");
        }
    }
}
