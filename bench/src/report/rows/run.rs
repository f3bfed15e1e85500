//! The command beside flock(1), as whole processes.

use super::super::row::Bound::RatioAtMost;
use super::super::row::Group::Run;
use super::super::row::Row;
use super::super::row::Unit::Seconds;
use super::{NO_SERVER, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Run, "flock", NO_SERVER, "lockkeeper run x -- true", "flock x true", Seconds, RatioAtMost(2.0)),
];
