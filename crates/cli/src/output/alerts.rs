//! Alerts, as lines of a log and in JSON.

use std::time::Duration;

use lockkeeper_monitor::alerts::{Alert, Finding};
use lockkeeper_monitor::{Moment, State};
use serde::Serialize;

use super::monitored::Seen;
use super::text::{brief, one_line};
use super::who::{Who, date, millis};

/// The alerts of a service that are not over, as `/api/alerts` tells them.
#[derive(Debug, Serialize)]
pub(crate) struct FiringAlerts {
    service: String,
    freshness: Seen,
    alerts: Vec<FiringAlert>,
}

#[derive(Debug, Serialize)]
struct FiringAlert {
    rule: &'static str,
    lock: Option<String>,
    began: String,
    summary: String,
    /// Who holds, where the alert is about a lock that is held.
    holder: Option<Who>,
    waiters: Option<usize>,
    held_at_least_ms: Option<u64>,
}

impl FiringAlerts {
    pub(crate) fn new(service: String, known: &State, now: Moment, alerts: impl Iterator<Item = Alert>) -> Self {
        let alerts = alerts.map(|alert| FiringAlert::new(&alert, now.unix)).collect();
        Self { service, freshness: Seen::new(known, now), alerts }
    }
}

impl FiringAlert {
    fn new(alert: &Alert, now_unix: Duration) -> Self {
        let who = |holder: &lockkeeper::ContenderInfo| Who::new(holder, now_unix).granted();
        let (holder, waiters, held_at_least_ms) = match &alert.finding {
            Finding::Held { holder, at_least, waiters } => (Some(who(holder)), Some(*waiters), Some(millis(*at_least))),
            Finding::Waiters { waiters, holder } => (holder.as_deref().map(who), Some(*waiters), None),
            _ => (None, None, None),
        };
        Self {
            rule: alert.about.rule().as_str(),
            lock: alert.about.lock().map(|lock| lock.as_str().to_owned()),
            began: date(alert.began_unix),
            summary: summary(alert, now_unix),
            holder,
            waiters,
            held_at_least_ms,
        }
    }
}

/// Says in one line what is wrong.
pub(crate) fn summary(alert: &Alert, now_unix: Duration) -> String {
    let lock = alert.about.lock().map_or("", |lock| lock.as_str());
    let name = |holder: &lockkeeper::ContenderInfo| Who::new(holder, now_unix).at_length();
    one_line(&match &alert.finding {
        Finding::Deadlock(judged) => {
            let locks: Vec<_> = judged.deadlock.chain.iter().map(|link| link.lock.as_str()).collect();
            format!("deadlock: contenders of {} wait for each other", locks.join(", "))
        }
        Finding::Held { holder, at_least, waiters } => {
            let wait = if *waiters == 1 { "waits" } else { "wait" };
            format!("{lock}: {} holds it for {} or longer, and {waiters} {wait}", name(holder), brief(*at_least))
        }
        Finding::Waiters { waiters, holder: Some(holder) } => {
            format!("{lock}: {waiters} wait for it; {} holds it", name(holder))
        }
        Finding::Waiters { waiters, holder: None } => format!("{lock}: {waiters} wait for it"),
        Finding::Unreachable(trouble) => format!("the service cannot be asked: {trouble}"),
        _ => "something is wrong".to_owned(),
    })
}
