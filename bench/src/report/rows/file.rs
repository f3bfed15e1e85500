//! Files beside the bare system calls.

use super::super::row::Bound::{OursAtLeast, RatioAtLeast, RatioAtMost};
use super::super::row::Group::File;
use super::super::row::Row;
use super::super::row::Unit::{PerSecond, Seconds};
use super::{ALONE, ALONE_LOCAL, CROWD_LOCAL, NO_SERVER, NONE, STICKY, STRICT, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(File, "bare", NO_SERVER, ALONE, "bare system calls", Seconds, RatioAtMost(3.0)),
    row(File, "crowd-local", NO_SERVER, CROWD_LOCAL, STRICT, PerSecond, RatioAtLeast(20.0)),
    row(File, "sticky", NO_SERVER, STICKY, NONE, PerSecond, OursAtLeast(800_000.0)),
    row(File, "local-alone", NO_SERVER, ALONE_LOCAL, STRICT, Seconds, RatioAtMost(1.05)),
];
