//! Alerts, as lines of a log and in JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper_monitor::alerts::{About, Alert, AlertFinding, Outage};
use lockkeeper_monitor::{Breach, MonitorState, SeenBreach, TimePoint};
use serde::Serialize;

use super::monitored::AnswerAge;
use super::text::{brief, one_line};
use super::who::{ContenderView, date, millis};

/// How many contenders of a deadlock its key names: no two deadlocks share one, and a header has its limits.
const KEY_PARTS_MAX: usize = 2;

/// The key of an outage has its beginning in parts of this length: two monitors that were cut off one after the other
/// may have counted the same number, and the clocks of those that were cut off together differ by less.
const OUTAGE_PART: Duration = Duration::from_secs(10 * 60);

/// The alerts of a service that are not over, as `/api/alerts` tells them.
#[derive(Debug, Serialize)]
pub(crate) struct FiringAlerts {
    service: String,
    freshness: AnswerAge,
    alerts: Vec<FiringAlert>,
}

#[derive(Debug, Serialize)]
struct FiringAlert {
    rule: &'static str,
    lock: Option<String>,
    began: String,
    summary: String,
    /// Who holds, where the alert is about a lock that is held.
    holder: Option<ContenderView>,
    waiters: Option<usize>,
    held_at_least_ms: Option<u64>,
}

impl FiringAlerts {
    pub(crate) fn new(
        service: String,
        known: &MonitorState,
        now: TimePoint,
        alerts: impl Iterator<Item = Alert>,
    ) -> Self {
        let alerts = alerts.map(|alert| FiringAlert::new(&alert, now.unix)).collect();
        Self { service, freshness: AnswerAge::new(known, now), alerts }
    }
}

impl FiringAlert {
    fn new(alert: &Alert, now_unix: Duration) -> Self {
        let who = |holder: &lockkeeper::ContenderInfo| ContenderView::new(holder, now_unix).granted();
        let (holder, waiters, held_at_least_ms) = match &alert.finding {
            AlertFinding::Held { holder, at_least, waiters, .. } => {
                (Some(who(holder)), Some(*waiters), Some(millis(*at_least)))
            }
            AlertFinding::Waiters { waiters, holder } => (holder.as_deref().map(who), Some(*waiters), None),
            AlertFinding::Jeopardy { holder, .. } => (Some(who(holder)), None, None),
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

pub(crate) fn summary(alert: &Alert, now_unix: Duration) -> String {
    let lock = alert.about.lock().map_or("", |lock| lock.as_str());
    let name = |holder: &lockkeeper::ContenderInfo| ContenderView::new(holder, now_unix).at_length();
    one_line(&match &alert.finding {
        AlertFinding::Deadlock(judged) => {
            let locks: Vec<_> = judged.deadlock.chain.iter().map(|link| link.lock.as_str()).collect();
            format!("deadlock: contenders of {} wait for each other", locks.join(", "))
        }
        AlertFinding::Held { holder, at_least, waiters, .. } => {
            let wait = if *waiters == 1 { "waits" } else { "wait" };
            format!("{lock}: {} holds it for {} or longer, and {waiters} {wait}", name(holder), brief(*at_least))
        }
        AlertFinding::Waiters { waiters, holder: Some(holder) } => {
            format!("{lock}: {waiters} wait for it; {} holds it", name(holder))
        }
        AlertFinding::Waiters { waiters, holder: None } => format!("{lock}: {waiters} wait for it"),
        AlertFinding::Lost { losses } => {
            format!("{lock}: {losses} holders have lost it in the last ten minutes: they died, or were cut off")
        }
        AlertFinding::Jeopardy { holder, silent, timeout, .. } => format!(
            "{lock}: {} holds it and has given no sign of life for {}; after {} it loses the lock",
            name(holder),
            brief(*silent),
            brief(*timeout)
        ),
        AlertFinding::Breach(seen) => format!("{lock}: {}", breach(seen, name)),
        AlertFinding::Said(said) => said.clone(),
        AlertFinding::Unreachable(trouble) => format!("the service cannot be asked: {trouble}"),
        _ => "something is wrong".to_owned(),
    })
}

/// Says what a lock shows that it may never show, of its two contenders by their names.
pub(crate) fn breach(seen: &SeenBreach, name: impl Fn(&lockkeeper::ContenderInfo) -> String) -> String {
    let token = |info: &lockkeeper::ContenderInfo| info.token.map(|token| token.to_string()).unwrap_or_default();
    let (earlier, later) = (name(&seen.earlier), name(&seen.later));
    match seen.breach {
        Breach::TokenFell => {
            let (last, next) = (token(&seen.earlier), token(&seen.later));
            format!("{earlier} held it with token {last}, and {later} after it with {next}: fences refuse it")
        }
        Breach::Overtaken => format!("{earlier} held it, and {later} stands ahead of it now: both may hold it"),
        Breach::Overlap => format!("{later} was granted it while {earlier} holds it"),
        _ => format!("{earlier} and {later} break its promises"),
    }
}

/// One alert for a receiver, when it begins or when it is over.
#[derive(Debug, Serialize)]
pub(crate) struct ToldAlert {
    status: &'static str,
    service: String,
    ended: Option<String>,
    #[serde(flatten)]
    alert: FiringAlert,
    #[serde(skip)]
    key: String,
}

impl ToldAlert {
    pub(crate) fn new(service: &str, alert: &Alert, now_unix: Duration) -> Self {
        Self {
            status: if alert.ended_unix.is_some() { "resolved" } else { "firing" },
            service: service.to_owned(),
            ended: alert.ended_unix.map(date),
            alert: FiringAlert::new(alert, now_unix),
            key: key(service, alert),
        }
    }

    /// Tells this one from all others, so that a receiver can tell that it has it already; in visible ASCII.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.status, self.key)
    }
}

/// Tells an alert from all others, as all monitors of its service that know of each other do.
fn key(service: &str, alert: &Alert) -> String {
    let began = match alert.outage {
        Some(Outage { note, number }) => {
            format!("{note}.{number}.{}", alert.began_unix.as_secs() / OUTAGE_PART.as_secs())
        }
        None => millis(alert.began_unix).to_string(),
    };
    let about: Vec<_> = match &alert.about {
        About::Deadlock(core) => core.iter().map(|(lock, id)| format!("{lock}:{id}")).take(KEY_PARTS_MAX).collect(),
        About::Held(lock, id) | About::Jeopardy(lock, id) => vec![format!("{lock}:{id}")],
        about => about.lock().map(ToString::to_string).into_iter().collect(),
    };
    let text = format!("{}-{began}-{}-{service}", alert.about.rule(), about.join(","));
    text.escape_default().to_string().replace(' ', "\\u{20}")
}

/// An alert in the shape of Alertmanager's `POST /api/v2/alerts`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostedAlert {
    labels: BTreeMap<&'static str, String>,
    annotations: BTreeMap<&'static str, String>,
    starts_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<String>,
}

/// Puts alerts into that shape. Its labels say which alert it is.
pub(crate) fn posted(service: &str, alerts: &[Alert], now_unix: Duration) -> Vec<PostedAlert> {
    let posted = |alert: &Alert| {
        let rule = alert.about.rule().as_str();
        let mut labels = BTreeMap::from([("rule", rule.to_owned()), ("service", service.to_owned())]);
        let mut name = format!("Lockkeeper{rule}");
        name[10..11].make_ascii_uppercase();
        labels.insert("alertname", name);
        labels.extend(alert.about.lock().map(|lock| ("lock", lock.as_str().to_owned())));
        if let About::Held(_, contender) | About::Jeopardy(_, contender) = &alert.about {
            labels.insert("contender", contender.to_string());
        }
        PostedAlert {
            labels,
            annotations: BTreeMap::from([("summary", summary(alert, now_unix))]),
            starts_at: date(alert.began_unix),
            ends_at: alert.ended_unix.map(date),
        }
    };
    alerts.iter().map(posted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of an outage that began so many seconds after 1970.
    fn of_outage(note: u64, number: u64, began: u64) -> String {
        let finding = AlertFinding::Unreachable("refused".to_owned());
        let mut alert = Alert::new(About::Unreachable, finding, Duration::from_secs(began));
        alert.outage = Some(Outage { note, number });
        key("zk://h", &alert)
    }

    #[test]
    fn monitors_that_are_cut_off_together_have_one_key_and_one_that_was_cut_off_alone_before_has_another() {
        assert_eq!(of_outage(7, 1, 6_010), of_outage(7, 1, 6_013));
        assert_ne!(of_outage(7, 1, 6_010), of_outage(7, 1, 7_300), "alone, and the leader later");
        assert_ne!(of_outage(7, 1, 6_010), of_outage(7, 2, 6_100));
        assert_ne!(of_outage(7, 1, 6_010), of_outage(8, 1, 6_100));
    }
}
