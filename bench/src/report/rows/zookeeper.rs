//! Locks on ZooKeeper beside a bare socket, Curator and others, on three kinds of server.

use super::super::row::Bound::{Informative, OursAtLeast, OursAtMost, RatioAtLeast, RatioAtMost};
use super::super::row::Group::ZooKeeper;
use super::super::row::Row;
use super::super::row::Unit::{Count, PerSecond, Seconds, Share};
use super::{ALONE, ALONE_LOCAL, APACHE, APACHE_3, CROWD_LOCAL, EMBEDDED, NONE, STICKY, STRICT, row};

const BARE: &str = "bare socket, pipelined";
const CURATOR: &str = "Curator";
const EACH: &str = "Curator, an instance a thread";
const SHARED: &str = "Curator, one instance";
const PROCESSES: &str = "Curator, 8 × 8 threads";
const CLIENT: &str = "zookeeper-client";
const KAZOO: &str = "kazoo";
const SET_NX: &str = "Redis, SET NX PX at once";
const FREE: &str = "a free lock";
const TEN: &str = "10 waiters";
const BOUND: &str = "8 × 64 holds + 8 joins";

const DROP: &str = "lock, released by drop: what the caller waits for";
const TIGHT: &str = "lock, released by drop: tight loop";
const REFUSED: &str = "failed try_lock";
const REQUESTS: &str = "requests of a pair, Local";
const CROWD: &str = "32 tasks, one lock, Strict";
const OWN: &str = "32 tasks, a lock each";
const FAIRNESS: &str = "least/most grants of one of 32 tasks, Local";
const STICKY_NAMED: &str = "Sticky, one task, keeper.mutex(name) each time";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(ZooKeeper, "bare", APACHE, ALONE, BARE, Seconds, RatioAtMost(1.10)),
    row(ZooKeeper, "bare", APACHE_3, ALONE, BARE, Seconds, RatioAtMost(1.10)),
    row(ZooKeeper, "bare", EMBEDDED, ALONE, BARE, Seconds, RatioAtMost(1.10)),
    row(ZooKeeper, "curator", APACHE, ALONE, CURATOR, Seconds, RatioAtMost(0.75)),
    row(ZooKeeper, "curator", APACHE_3, ALONE, CURATOR, Seconds, RatioAtMost(0.75)),
    row(ZooKeeper, "curator", EMBEDDED, ALONE, CURATOR, Seconds, RatioAtMost(0.75)),
    row(ZooKeeper, "client", APACHE, ALONE, CLIENT, Seconds, Informative),
    row(ZooKeeper, "client", APACHE_3, ALONE, CLIENT, Seconds, Informative),
    row(ZooKeeper, "client", EMBEDDED, ALONE, CLIENT, Seconds, Informative),
    row(ZooKeeper, "kazoo", APACHE, ALONE, KAZOO, Seconds, Informative),
    row(ZooKeeper, "kazoo", APACHE_3, ALONE, KAZOO, Seconds, Informative),
    row(ZooKeeper, "kazoo", EMBEDDED, ALONE, KAZOO, Seconds, Informative),
    row(ZooKeeper, "drop", APACHE, DROP, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "drop", APACHE_3, DROP, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "drop", EMBEDDED, DROP, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "drop-tight", APACHE, TIGHT, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "drop-tight", APACHE_3, TIGHT, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "drop-tight", EMBEDDED, TIGHT, CURATOR, Seconds, RatioAtMost(0.50)),
    row(ZooKeeper, "refused", APACHE, REFUSED, CURATOR, Seconds, RatioAtMost(0.35)),
    row(ZooKeeper, "refused", APACHE_3, REFUSED, CURATOR, Seconds, RatioAtMost(0.35)),
    row(ZooKeeper, "refused", EMBEDDED, REFUSED, CURATOR, Seconds, RatioAtMost(0.35)),
    row(ZooKeeper, "local-alone", APACHE, ALONE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    row(ZooKeeper, "local-alone", APACHE_3, ALONE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    row(ZooKeeper, "local-alone", EMBEDDED, ALONE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    row(ZooKeeper, "requests", APACHE, REQUESTS, STRICT, Count, RatioAtMost(1.0)),
    row(ZooKeeper, "requests", APACHE_3, REQUESTS, STRICT, Count, RatioAtMost(1.0)),
    row(ZooKeeper, "requests", EMBEDDED, REQUESTS, STRICT, Count, RatioAtMost(1.0)),
    row(ZooKeeper, "crowd-each", APACHE, CROWD, EACH, PerSecond, RatioAtLeast(1.0)),
    row(ZooKeeper, "crowd-each", APACHE_3, CROWD, EACH, PerSecond, RatioAtLeast(1.0)),
    row(ZooKeeper, "crowd-shared", APACHE, CROWD, SHARED, PerSecond, Informative),
    row(ZooKeeper, "crowd-shared", APACHE_3, CROWD, SHARED, PerSecond, RatioAtLeast(2.0)),
    row(ZooKeeper, "crowd-own", APACHE, OWN, CURATOR, PerSecond, RatioAtLeast(1.0)),
    row(ZooKeeper, "crowd-own", APACHE_3, OWN, CURATOR, PerSecond, RatioAtLeast(1.0)),
    row(ZooKeeper, "local-rate", APACHE, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(ZooKeeper, "local-rate", APACHE_3, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(ZooKeeper, "local-curator", APACHE, CROWD_LOCAL, EACH, PerSecond, RatioAtLeast(300.0)),
    row(ZooKeeper, "local-curator", APACHE_3, CROWD_LOCAL, EACH, PerSecond, RatioAtLeast(300.0)),
    row(ZooKeeper, "local-redis", APACHE, CROWD_LOCAL, SET_NX, PerSecond, RatioAtLeast(5.0)),
    row(ZooKeeper, "local-redis", APACHE_3, CROWD_LOCAL, SET_NX, PerSecond, RatioAtLeast(5.0)),
    row(ZooKeeper, "fairness", APACHE, FAIRNESS, NONE, Share, OursAtLeast(0.5)),
    row(ZooKeeper, "fairness", APACHE_3, FAIRNESS, NONE, Share, OursAtLeast(0.5)),
    row(ZooKeeper, "processes", APACHE, "8 processes of 8 tasks, Local", PROCESSES, PerSecond, RatioAtLeast(10.0)),
    row(ZooKeeper, "processes-wait", APACHE, "their longest wait", BOUND, Seconds, RatioAtMost(2.0)),
    row(ZooKeeper, "processes-requests", APACHE, "their requests a grant", NONE, Count, OursAtMost(3.0)),
    row(ZooKeeper, "sticky", APACHE, STICKY, NONE, PerSecond, OursAtLeast(1_000_000.0)),
    row(ZooKeeper, "sticky", APACHE_3, STICKY, NONE, PerSecond, OursAtLeast(1_000_000.0)),
    row(ZooKeeper, "sticky-named", APACHE, STICKY_NAMED, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(ZooKeeper, "sticky-named", APACHE_3, STICKY_NAMED, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(ZooKeeper, "idle", APACHE, "lock behind an idle place", FREE, Seconds, RatioAtMost(4.5)),
    row(ZooKeeper, "idle-blocked", APACHE, "the same, its runtime blocked", FREE, Seconds, RatioAtMost(10.0)),
    row(ZooKeeper, "waiters", APACHE, "hand-off, Strict, 1,000 waiters", TEN, Seconds, RatioAtMost(1.3)),
    row(ZooKeeper, "readers", APACHE, "32 tasks, 95 % readers", CURATOR, PerSecond, RatioAtLeast(2.0)),
];
