//! Judges what is known each second, and tells of alerts on stderr and to the receivers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::Collector;
use lockkeeper_monitor::alerts::{Alert, Alerts, News, Rule, Thresholds};
use tokio::time::{MissedTickBehavior, interval};

use super::receiver::{Receiver, Sink};
use crate::config::MonitorSettings;
use crate::output::{brief, summary};
use crate::voice::say;

/// How often is judged, since an alert may begin or end by the time alone; and how often at most, since a service may
/// be full of changes.
const PERIOD: Duration = Duration::from_secs(1);

/// The alerts of one service.
#[derive(Debug)]
pub(crate) struct Alerting {
    collector: Arc<Collector>,
    settings: MonitorSettings,
    alerts: Mutex<Alerts>,
    receivers: Vec<Receiver>,
}

impl Alerting {
    pub(crate) fn new(collector: Arc<Collector>, settings: MonitorSettings) -> Self {
        let webhook = settings.webhook().map(Sink::Webhook);
        let command = Some(settings.command().to_vec()).filter(|words| !words.is_empty()).map(Sink::Command);
        let sinks = webhook.into_iter().chain(command);
        let receivers = sinks.map(|sink| Receiver::new(sink, collector.service())).collect();
        Self { collector, settings, alerts: Mutex::default(), receivers }
    }

    /// Nothing panics while it is locked but a bug.
    fn alerts(&self) -> MutexGuard<'_, Alerts> {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the alerts that are not over.
    pub(super) fn firing(&self) -> Vec<Alert> {
        self.alerts().firing().collect()
    }

    /// Returns how many alerts were raised so far, by rule.
    pub(super) fn raised(&self) -> BTreeMap<&'static str, u64> {
        let alerts = self.alerts();
        Rule::ALL.into_iter().map(|rule| (rule.as_str(), alerts.raised(rule))).collect()
    }

    /// Returns how many alerts a receiver was never told of.
    pub(super) fn dropped(&self) -> u64 {
        self.receivers.iter().map(Receiver::dropped).sum()
    }

    /// Tells of alerts until the future is dropped.
    pub(crate) async fn run(&self) {
        if !self.settings.is_enabled() {
            return std::future::pending().await;
        }
        let told = async |at: usize| match self.receivers.get(at) {
            Some(receiver) => receiver.run(|| self.firing()).await,
            None => std::future::pending().await,
        };
        // A webhook and a command, at most.
        tokio::join!(self.judge(), told(0), told(1));
    }

    async fn judge(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = self.collector.now();
            let thresholds = |lock: &QueueName| {
                let default = Thresholds::default();
                let (waiters, held) = self.settings.thresholds(lock.as_str());
                Thresholds::new(waiters.unwrap_or(default.waiters), held.unwrap_or(default.held))
            };
            let news = self.collector.read(|state| self.alerts().judge(state, now, thresholds));
            for news in news {
                self.receivers.iter().for_each(|receiver| receiver.put(news.clone()));
                match news {
                    News::Raised(alert) => say(&format!("alert: {}", summary(&alert, now.unix))),
                    News::Ended(alert) => {
                        let lasted = alert.ended_unix.map(|ended| brief(ended.saturating_sub(alert.began_unix)));
                        let lasted = lasted.unwrap_or_default();
                        say(&format!("alert over after {lasted}: {}", summary(&alert, now.unix)));
                    }
                    _ => {}
                }
            }
        }
    }
}
