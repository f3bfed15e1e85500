//! The embedded server beside Apache ZooKeeper.

use super::super::row::Bound::{Informative, OursAtMost, RatioAtLeast, RatioAtMost};
use super::super::row::Group::Server;
use super::super::row::Row;
use super::super::row::Unit::{Mebibytes, PerSecond, Seconds, Share};
use super::{NO_SERVER, row};

const APACHE: &str = "Apache";
const LONGEST: &str = "longest write while snapshots are taken";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Server, "writes", NO_SERVER, "create + delete", APACHE, PerSecond, RatioAtLeast(3.0)),
    row(Server, "reads", NO_SERVER, "reads", APACHE, PerSecond, RatioAtLeast(3.0)),
    row(Server, "memory", NO_SERVER, "memory after that", APACHE, Mebibytes, RatioAtMost(0.05)),
    row(Server, "ready", NO_SERVER, "started until it serves", APACHE, Seconds, OursAtMost(0.05)),
    row(Server, "sessions", NO_SERVER, "10,000 sessions opened", APACHE, Seconds, Informative),
    row(Server, "watches", NO_SERVER, "100,000 watches set", APACHE, Seconds, Informative),
    row(Server, "memory-sessions", NO_SERVER, "memory with these", APACHE, Mebibytes, Informative),
    row(Server, "large-memory", NO_SERVER, "memory with a million nodes", APACHE, Mebibytes, RatioAtMost(0.5)),
    row(Server, "longest-write", NO_SERVER, LONGEST, APACHE, Seconds, RatioAtMost(1.0)),
    row(Server, "write", NO_SERVER, "median write meanwhile", APACHE, Seconds, Informative),
    row(Server, "peak", NO_SERVER, "peak of memory meanwhile / before", APACHE, Share, OursAtMost(1.3)),
    row(Server, "filled", NO_SERVER, "filled with a million nodes", APACHE, Seconds, Informative),
    row(Server, "started", NO_SERVER, "killed, and started with them", APACHE, Seconds, Informative),
];
