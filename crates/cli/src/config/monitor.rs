//! `[monitor]`: the settings of the monitor of the locks, checked with the rest of the file.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::span::Span;

/// The monitor's settings, as far as they are given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct MonitorSettings {
    pub(super) is_enabled: Option<bool>,
    /// How often it looks.
    pub(super) interval: Option<Duration>,
    /// The number of waiters from which a lock is under contention.
    pub(super) contention_threshold: Option<NonZeroU32>,
    /// The duration from which a hold counts as long.
    pub(super) long_hold_threshold: Option<Duration>,
}

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorTable {
    enabled: Option<bool>,
    interval: Option<Span>,
    contention_threshold: Option<NonZeroU32>,
    long_hold_threshold: Option<Span>,
}

impl MonitorTable {
    pub(super) fn check(self) -> Result<MonitorSettings, String> {
        let positive = |key: &str, span: Option<Span>| match span.map(|span| span.duration) {
            Some(Duration::ZERO) => Err(format!("monitor.{key} is zero")),
            duration => Ok(duration),
        };
        Ok(MonitorSettings {
            is_enabled: self.enabled,
            interval: positive("interval", self.interval)?,
            contention_threshold: self.contention_threshold,
            long_hold_threshold: positive("long_hold_threshold", self.long_hold_threshold)?,
        })
    }
}
