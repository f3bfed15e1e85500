//! How soon a change of one of many locks is told, and what looks cost where nothing is told.

use super::super::row::Bound::{Informative, OursAtMost};
use super::super::row::Group::Following;
use super::super::row::Row;
use super::super::row::Unit::{Seconds, Share};
use super::{APACHE, EMBEDDED, ETCD, MARIADB, NO_SERVER, NONE, POSTGRES, REDIS, row};

const FILES: &str = "5,000 locks, 100 changes a second: told after";
const TOLD: &str = "10,000 locks, 100 changes a second: told after";
const LATE: &str = "the latest hundredth of them";
const LOOKS: &str = "10,000 locks: part of a connection's time for looks";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Following, "told",      NO_SERVER, FILES, NONE, Seconds, OursAtMost(0.010)),
    row(Following, "told-late", NO_SERVER, LATE,  NONE, Seconds, Informative),
    row(Following, "told",      EMBEDDED,  TOLD,  NONE, Seconds, OursAtMost(0.010)),
    row(Following, "told-late", EMBEDDED,  LATE,  NONE, Seconds, Informative),
    row(Following, "told",      APACHE,    TOLD,  NONE, Seconds, OursAtMost(0.010)),
    row(Following, "told-late", APACHE,    LATE,  NONE, Seconds, Informative),
    row(Following, "told",      ETCD,      TOLD,  NONE, Seconds, OursAtMost(0.010)),
    row(Following, "told-late", ETCD,      LATE,  NONE, Seconds, Informative),
    row(Following, "told",      REDIS,     TOLD,  NONE, Seconds, OursAtMost(0.010)),
    row(Following, "told-late", REDIS,     LATE,  NONE, Seconds, Informative),
    row(Following, "looks",     POSTGRES,  LOOKS, NONE, Share,   OursAtMost(0.010)),
    row(Following, "looks",     MARIADB,   LOOKS, NONE, Share,   OursAtMost(0.010)),
];
