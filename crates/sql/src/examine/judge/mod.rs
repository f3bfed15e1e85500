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
use lockkeeper_session::{Clocks, FOR_TOKENS, judge_round_trip};

use super::report::Report;
use crate::engine::WakeMethod;
use crate::session::Timing;
use crate::url::Config;

/// What was seen of a server.
pub(super) struct Seen<'a> {
    pub(super) config: &'a Config,
    pub(super) wake_method: WakeMethod,
    pub(super) clocks: Option<Clocks>,
    /// What half of the requests took at most.
    pub(super) median: Duration,
    pub(super) report: &'a Report,
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
    findings.extend(common::judge_waking(seen.config, seen.wake_method));
    findings.extend(seen.clocks.and_then(|clocks| clocks.judge("the server", FOR_TOKENS)));
    let interval = Timing { timeout: seen.config.session_timeout() }.busy_interval();
    findings.extend(judge_round_trip(interval, seen.median, "a session beats"));
    findings
}
