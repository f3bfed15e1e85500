//! The recipes alone, on the memory backend.

use super::super::row::Bound::{OursAtLeast, OursAtMost, RatioAtMost};
use super::super::row::Group::Memory;
use super::super::row::Row;
use super::super::row::Unit::{Count, PerSecond, Seconds, Share};
use super::{ALONE_LOCAL, CROWD_LOCAL, NO_SERVER, NONE, STICKY, STRICT, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Memory, "strict", NO_SERVER, "uncontended lock + release, Strict", NONE, PerSecond, OursAtLeast(600_000.0)),
    row(Memory, "sticky", NO_SERVER, STICKY, NONE, PerSecond, OursAtLeast(1_000_000.0)),
    row(Memory, "crowd-local", NO_SERVER, CROWD_LOCAL, NONE, PerSecond, OursAtLeast(500_000.0)),
    row(Memory, "fairness", NO_SERVER, "least/most grants of one of 32 tasks, Local", NONE, Share, OursAtLeast(0.5)),
    row(Memory, "local-alone", NO_SERVER, ALONE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
    row(Memory, "cancel", NO_SERVER, "cancel one of 10,000 local waiters", NONE, Seconds, OursAtMost(500e-9)),
    row(Memory, "records", NO_SERVER, "metrics of a lock + release, no recorder", NONE, Seconds, OursAtMost(50e-9)),
    row(Memory, "loop", NO_SERVER, "grants in 0.5 s beside a task that loops", NONE, Count, OursAtLeast(500.0)),
];
