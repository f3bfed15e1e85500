//! Redis beside `SET NX PX` with compare-and-delete, and beside the crate `rslock`. How often a disk is written to is
//! not ours to decide: with a log on the disk there is no budget.

use super::super::row::Bound::{Informative, RatioAtLeast, RatioAtMost};
use super::super::row::Group::Redis;
use super::super::row::Row;
use super::super::row::Unit::{Count, Seconds};
use super::{ALONE, REDIS, REDIS_AOF, row};

const SET_NX: &str = "SET NX PX";
const RETRIED: &str = "SET NX PX each 10 ms";

const GRANTS: &str = "grants in 2 s of 32 clients, held for 0 ms";
const COMMANDS: &str = "commands for each of these";
const GRANTS_10MS: &str = "grants in 2 s of 32 clients, held for 10 ms";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Redis, "plain", REDIS, ALONE, SET_NX, Seconds, RatioAtMost(1.4)),
    row(Redis, "rslock", REDIS, ALONE, "rslock", Seconds, RatioAtMost(1.0)),
    row(Redis, "crowd-grants", REDIS, GRANTS, RETRIED, Count, RatioAtLeast(1.0)),
    row(Redis, "crowd-commands", REDIS, COMMANDS, RETRIED, Count, RatioAtMost(0.3)),
    row(Redis, "crowd-grants-10ms", REDIS, GRANTS_10MS, RETRIED, Count, RatioAtLeast(1.0)),
    row(Redis, "crowd-commands-10ms", REDIS, COMMANDS, RETRIED, Count, RatioAtMost(0.3)),
    row(Redis, "plain", REDIS_AOF, ALONE, SET_NX, Seconds, Informative),
    row(Redis, "rslock", REDIS_AOF, ALONE, "rslock", Seconds, Informative),
];
