//! `[monitor]`: the settings of the monitor of the locks, checked with the rest of the file.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper::NamePattern;
#[cfg(any(feature = "monitor", feature = "top"))]
use lockkeeper_monitor::{Collector, alerts::Thresholds};
use serde::Deserialize;

use super::receiver::{Webhook, WebhookFormat};
use super::values::Span;

/// The monitor's settings, as far as they are given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MonitorSettings {
    pub(crate) is_enabled: Option<bool>,
    /// How long the service is left alone between two looks at least, where it has to be looked at.
    pub interval: Option<Duration>,
    pub(crate) thresholds: LockThresholds,
    /// The thresholds of the locks of a pattern: the first pattern that a name is of counts.
    pub of_locks: Vec<(NamePattern, LockThresholds)>,
    pub(crate) webhook: Option<Webhook>,
    /// The program that is run for each alert, and its arguments; empty if there is none.
    pub command: Vec<String>,
    /// The directory that keeps the history over a restart, if there is one.
    pub history: Option<PathBuf>,
}

/// From when on a lock is worth an alert, as far as that is given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LockThresholds {
    /// The number of waiters that is no reason for an alert yet.
    pub contention: Option<NonZeroU32>,
    /// The duration of a hold that is no reason for one yet.
    pub long_hold: Option<Duration>,
    /// The number of losses within ten minutes that is no reason for one yet.
    pub losses: Option<u32>,
}

/// The table as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorTable {
    enabled: Option<bool>,
    interval: Option<Span>,
    contention_threshold: Option<NonZeroU32>,
    long_hold_threshold: Option<Span>,
    loss_threshold: Option<u32>,
    webhook: Option<String>,
    webhook_format: Option<WebhookFormat>,
    webhook_ca: Option<PathBuf>,
    command: Option<Vec<String>>,
    history: Option<PathBuf>,
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
    /// Checks what the types of its keys do not. Fails with a sentence that names the key.
    pub fn check(self) -> Result<MonitorSettings, String> {
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
            history: self.history,
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
    /// Collects what is known of these locks.
    pub fn collector(&self, keeper: &lockkeeper::Keeper, scope: lockkeeper::follow::Scope) -> Collector {
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
    pub fn thresholds(&self, lock: &str) -> Thresholds {
        let of_lock = self.of_locks.iter().find(|(pattern, _)| pattern.matches(lock));
        let of_lock = of_lock.map(|(_, thresholds)| *thresholds).unwrap_or_default();
        let (of_all, default) = (self.thresholds, Thresholds::default());
        let contention = of_lock.contention.or(of_all.contention).map_or(default.waiters, NonZeroU32::get);
        let long_hold = of_lock.long_hold.or(of_all.long_hold).unwrap_or(default.held);
        Thresholds::new(contention, long_hold, of_lock.losses.or(of_all.losses).unwrap_or(default.losses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_the_monitor_is_kept() {
        let text = "enabled = true\ninterval = '30s'\ncontention_threshold = 20\nlong_hold_threshold = '1h30m'\n\
                    webhook = 'http://h:9093/api/v2/alerts'\ncommand = ['tell', 'ops']\n\
                    history = '/var/lib/lockkeeper/history'\n\
                    [[locks]]\nnames = 'nightly-*'\nlong_hold_threshold = '8h'\n\
                    [[locks]]\nnames = '*'\ncontention_threshold = 5\nloss_threshold = 0";
        let table: MonitorTable = toml::from_str(text).unwrap();
        let thresholds = |contention, hours, losses| LockThresholds {
            contention: NonZeroU32::new(contention),
            long_hold: (hours > 0.0).then(|| Duration::from_secs_f64(hours * 3_600.0)),
            losses,
        };
        let expected = MonitorSettings {
            is_enabled: Some(true),
            interval: Some(Duration::from_secs(30)),
            thresholds: thresholds(20, 1.5, None),
            of_locks: vec![
                (NamePattern::new("nightly-*").unwrap(), thresholds(0, 8.0, None)),
                (NamePattern::new("*").unwrap(), thresholds(5, 0.0, Some(0))),
            ],
            webhook: Webhook::parse("http://h:9093/api/v2/alerts", WebhookFormat::Alertmanager, None).ok(),
            command: vec!["tell".to_owned(), "ops".to_owned()],
            history: Some(PathBuf::from("/var/lib/lockkeeper/history")),
        };
        assert_eq!(table.check().as_ref(), Ok(&expected));
        #[cfg(any(feature = "monitor", feature = "top"))]
        {
            use lockkeeper_monitor::alerts::Thresholds;
            let hours = |hours| Duration::from_secs_f64(hours * 3_600.0);
            // What the first pattern does not say is said for all, or is as it is without a file.
            assert_eq!(expected.thresholds("nightly-backup"), Thresholds::new(20, hours(8.0), 2));
            assert_eq!(expected.thresholds("hourly"), Thresholds::new(5, hours(1.5), 0));
            assert_eq!(MonitorSettings::default().thresholds("hourly"), Thresholds::default());
        }
    }
}
