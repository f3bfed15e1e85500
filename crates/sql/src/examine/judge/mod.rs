//! Judges what was seen of a server. Pure.
//!
//! - `common`: what matters on both kinds of database;
//! - `postgres`, `mysql`: what matters on one of them.

mod common;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod tests;

use std::time::Duration;

use lockkeeper_core::Finding;

use super::report::Report;
use crate::engine::Waking;
use crate::url::Config;

/// What was seen of a server.
pub(super) struct Seen<'a> {
    pub(super) config: &'a Config,
    pub(super) waking: Waking,
    pub(super) clocks: Option<Clocks>,
    /// What half of the requests took at most.
    pub(super) median: Duration,
    pub(super) report: &'a Report,
}

/// What the server's clock showed, and when by ours. All are times since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) server: Duration,
    /// When it was asked.
    pub(super) before: Duration,
    /// When it had answered.
    pub(super) after: Duration,
}

/// Judges all that was seen.
pub(super) fn judge(seen: &Seen<'_>) -> Vec<Finding> {
    let mut findings = match seen.config.dialect {
        #[cfg(feature = "postgres")]
        crate::url::Dialect::Postgres => postgres::judge(seen),
        #[cfg(feature = "mysql")]
        crate::url::Dialect::Mysql => mysql::judge(seen),
        #[cfg(not(all(feature = "postgres", feature = "mysql")))]
        _ => Vec::new(),
    };
    findings.extend(common::judge_settled(seen.report));
    findings.extend(common::judge_waking(seen.config, seen.waking));
    findings.extend(seen.clocks.and_then(common::judge_clock));
    findings.extend(common::judge_round_trip(seen.config.session_timeout(), seen.median));
    findings
}
