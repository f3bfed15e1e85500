//! Databases beside ShedLock's statements, alone and asking every 100 ms, and beside their own locks, which are not
//! fenced and write nothing.

use super::super::row::Bound::{Informative, RatioAtLeast, RatioAtMost};
use super::super::row::Group::Sql;
use super::super::row::Row;
use super::super::row::Unit::{PerSecond, Seconds};
use super::{ALONE, MARIADB, POSTGRES, row};

const SHEDLOCK: &str = "ShedLock's statements";
const ASKING: &str = "asking every 100 ms";
const ONE: &str = "one waiter";

const HAND_OFF: &str = "one waiter, release to grant";
const CROWD: &str = "1,000 waiters, release to grant";
const STATEMENTS: &str = "1,000 waiters, statements";
const BESIDE: &str = "pgbench's commits beside 128 listeners";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Sql, "shedlock", POSTGRES, ALONE, SHEDLOCK, Seconds, RatioAtMost(2.0)),
    row(Sql, "advisory", POSTGRES, ALONE, "pg_advisory_lock", Seconds, Informative),
    row(Sql, "one-waiter", POSTGRES, HAND_OFF, ASKING, Seconds, RatioAtMost(0.05)),
    row(Sql, "thousand-waiters", POSTGRES, CROWD, ONE, Seconds, RatioAtMost(2.0)),
    row(Sql, "thousand-statements", POSTGRES, STATEMENTS, ASKING, PerSecond, RatioAtMost(0.1)),
    row(Sql, "beside", POSTGRES, BESIDE, "without them", PerSecond, RatioAtLeast(0.9)),
    row(Sql, "shedlock", MARIADB, ALONE, SHEDLOCK, Seconds, RatioAtMost(2.5)),
    row(Sql, "advisory", MARIADB, ALONE, "GET_LOCK", Seconds, Informative),
    row(Sql, "one-waiter", MARIADB, HAND_OFF, ASKING, Seconds, RatioAtMost(0.05)),
    row(Sql, "thousand-waiters", MARIADB, CROWD, ONE, Seconds, RatioAtMost(2.0)),
    row(Sql, "thousand-statements", MARIADB, STATEMENTS, ASKING, PerSecond, RatioAtMost(0.1)),
];
