//! `[monitor]`: the settings of the monitor of the locks, checked with the rest of the file.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::NamePattern;
#[cfg(any(feature = "monitor", feature = "top"))]
use lockkeeper_monitor::{Collector, alerts::Thresholds};
use serde::Deserialize;

use super::receiver::{Webhook, WebhookFormat};
use super::span::Span;

/// The monitor's settings, as far as they are given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct MonitorSettings {
    pub(super) is_enabled: Option<bool>,
    /// How long the service is left alone between two looks at least, where it has to be looked at.
    pub(super) interval: Option<Duration>,
    pub(super) thresholds: LockThresholds,
    /// The thresholds of the locks of a pattern: the first pattern that a name is of counts.
    pub(super) of_locks: Vec<(NamePattern, LockThresholds)>,
    pub(crate) webhook: Option<Webhook>,
    /// The program that is run for each alert, and its arguments; empty if there is none.
    pub(crate) command: Vec<String>,
}

/// From when on a lock is worth an alert, as far as that is given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct LockThresholds {
    /// The number of waiters that is no reason for an alert yet.
    pub(super) contention: Option<NonZeroU32>,
    /// The duration of a hold that is no reason for one yet.
    pub(super) long_hold: Option<Duration>,
    /// The number of losses within ten minutes that is no reason for one yet.
    pub(super) losses: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MonitorTable {
    enabled: Option<bool>,
    interval: Option<Span>,
    contention_threshold: Option<NonZeroU32>,
    long_hold_threshold: Option<Span>,
    loss_threshold: Option<u32>,
    webhook: Option<String>,
    webhook_format: Option<WebhookFormat>,
    webhook_ca: Option<PathBuf>,
    command: Option<Vec<String>>,
    #[serde(default)]
    locks: Vec<LocksTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocksTable {
    names: String,
    contention_threshold: Option<NonZeroU32>,
    long_hold_threshold: Option<Span>,
    loss_threshold: Option<u32>,
}

impl MonitorTable {
    pub(super) fn check(self) -> Result<MonitorSettings, String> {
        let of_locks = self.locks.into_iter().map(|locks| {
            let LocksTable { names, contention_threshold: contention, long_hold_threshold, loss_threshold: losses } =
                locks;
            let pattern = NamePattern::new(&names).map_err(|what| format!("monitor.locks.names: {what}"))?;
            let long_hold = positive("locks.long_hold_threshold", long_hold_threshold)?;
            Ok((pattern, LockThresholds { contention, long_hold, losses }))
        });
        let long_hold = positive("long_hold_threshold", self.long_hold_threshold)?;
        let (contention, losses) = (self.contention_threshold, self.loss_threshold);
        let webhook = match (self.webhook, self.webhook_format, self.webhook_ca) {
            (Some(url), format, ca) => Some(Webhook::parse(&url, format.unwrap_or_default(), ca)?),
            (None, Some(_), _) => return Err("monitor.webhook_format is of no use without monitor.webhook".to_owned()),
            (None, _, Some(_)) => return Err("monitor.webhook_ca is of no use without monitor.webhook".to_owned()),
            (None, None, None) => None,
        };
        let command = match self.command {
            Some(words) if words.first().is_none_or(String::is_empty) => {
                return Err(
                    "monitor.command names no program; write it as [\"/usr/local/bin/tell\", \"ops\"]".to_owned()
                );
            }
            words => words.unwrap_or_default(),
        };
        Ok(MonitorSettings {
            is_enabled: self.enabled,
            interval: positive("interval", self.interval)?,
            thresholds: LockThresholds { contention, long_hold, losses },
            of_locks: of_locks.collect::<Result<_, String>>()?,
            webhook,
            command,
        })
    }
}

fn positive(key: &str, span: Option<Span>) -> Result<Option<Duration>, String> {
    match span.map(|span| span.duration) {
        Some(Duration::ZERO) => Err(format!("monitor.{key} is zero")),
        duration => Ok(duration),
    }
}

#[cfg(any(feature = "monitor", feature = "top"))]
impl MonitorSettings {
    /// Reads what the config files say of the monitor; nothing if none of them does.
    pub(crate) fn load(global: &crate::args::Global) -> Result<Self, crate::exit::Failure> {
        let found = super::places::Places::here().find(global.config.as_deref(), |file| file.monitor)?;
        Ok(found.map(|(_, settings)| settings).unwrap_or_default())
    }

    /// Collects what is known of these locks.
    pub(crate) fn collector(&self, keeper: &lockkeeper::Keeper, scope: lockkeeper::follow::Scope) -> Collector {
        let collector = Collector::new(keeper.clone(), std::sync::Arc::new(lockkeeper::clock::SystemClock), scope);
        match self.interval {
            Some(interval) => collector.looking_each(interval),
            None => collector,
        }
    }

    #[cfg(feature = "monitor")]
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled != Some(false)
    }

    /// Returns from when on a lock is worth an alert.
    pub(crate) fn thresholds(&self, lock: &str) -> Thresholds {
        let of_lock = self.of_locks.iter().find(|(pattern, _)| pattern.matches(lock));
        let of_lock = of_lock.map(|(_, thresholds)| *thresholds).unwrap_or_default();
        let (of_all, default) = (self.thresholds, Thresholds::default());
        let contention = of_lock.contention.or(of_all.contention).map_or(default.waiters, NonZeroU32::get);
        let long_hold = of_lock.long_hold.or(of_all.long_hold).unwrap_or(default.held);
        Thresholds::new(contention, long_hold, of_lock.losses.or(of_all.losses).unwrap_or(default.losses))
    }
}
