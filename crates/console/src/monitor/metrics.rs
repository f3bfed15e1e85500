//! The metrics of a monitor, in the text format of Prometheus.
//!
//! A recorder would keep a series for each lock that ever was; here each answer has those that are. Series of single
//! locks are written for the names that an operator has chosen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lockkeeper::NamePattern;
use lockkeeper_monitor::{DeadlockVerdict, KnownLock, MonitorState, ServiceFreshness, TimePoint};

use crate::output::is_harmful;
use crate::output::marks::oldest_wait;

pub(super) const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How many series of single locks are written at most: four for each of 2,500 locks.
const SERIES_MAX: usize = 10_000;

/// What is known of a deadlock, as values of the label `certainty`.
const CERTAINTIES: [&str; 2] = ["known", "possible"];

#[derive(Debug, Default)]
pub(super) struct AlertCounts {
    /// Those that were raised, by rule.
    pub(super) raised: BTreeMap<&'static str, u64>,
    /// Those that a receiver was never told of.
    pub(super) dropped: u64,
}

pub(super) fn text(state: &MonitorState, now: TimePoint, named: &[NamePattern], alerts: &AlertCounts) -> String {
    let mut text = MetricsText::default();
    let locks = state.model.locks();
    text.one("lockkeeper_queues", "gauge", "Locks that have holders or waiters.", locks.len() as f64);
    text.family("lockkeeper_contenders", "gauge", "Holders and waiters of all locks.");
    let holders: usize = locks.values().map(|lock| lock.holders().count()).sum();
    let waiters: usize = locks.values().map(|lock| lock.waiters().count()).sum();
    text.sample("lockkeeper_contenders", &[("state", "holder")], holders as f64);
    text.sample("lockkeeper_contenders", &[("state", "waiter")], waiters as f64);
    text.family("lockkeeper_deadlocks", "gauge", "Deadlocks, known or only possible.");
    for certainty in CERTAINTIES {
        let is_known =
            |verdict: DeadlockVerdict| matches!(verdict, DeadlockVerdict::Known | DeadlockVerdict::EndsSoon(_));
        let count = state.deadlocks.iter().filter(|judged| is_known(judged.verdict) == (certainty == "known"));
        text.sample("lockkeeper_deadlocks", &[("certainty", certainty)], count.count() as f64);
    }
    let (events, seen) = (state.model.next_event() as f64, "Joins, grants, departures and orders that were seen.");
    text.one("lockkeeper_events_total", "counter", seen, events);
    let age = state.freshness.age(now.boot).map_or(f64::INFINITY, |age| age.as_secs_f64());
    let shown = "How long ago what is shown was true; infinite if nothing was seen.";
    text.one("lockkeeper_monitor_staleness_seconds", "gauge", shown, age);
    let is_fresh = f64::from(u8::from(matches!(state.freshness, ServiceFreshness::Fresh(_))));
    text.one("lockkeeper_monitor_fresh", "gauge", "1 while the service can be asked, else 0.", is_fresh);
    text.family("lockkeeper_monitor_alerts_total", "counter", "Alerts that were raised.");
    for (rule, count) in &alerts.raised {
        text.sample("lockkeeper_monitor_alerts_total", &[("rule", rule)], *count as f64);
    }
    let (name, untold) = ("lockkeeper_monitor_alerts_dropped_total", "Alerts that a receiver was never told of.");
    text.one(name, "counter", untold, alerts.dropped as f64);
    of_locks(&mut text, state, now, named);
    text.0
}

/// A metric of a lock: its name, what it is, and its value if it has one.
type Metric = (&'static str, &'static str, fn(&KnownLock, TimePoint) -> Option<f64>);

const OF_LOCKS: [Metric; 4] = [
    ("lockkeeper_queue_holders", "Contenders that hold this lock.", |lock, _| Some(lock.holders().count() as f64)),
    ("lockkeeper_queue_waiters", "Contenders that wait for this lock.", |lock, _| Some(lock.waiters().count() as f64)),
    ("lockkeeper_queue_oldest_wait_seconds", "For how long the oldest waiter waits.", |lock, now| {
        oldest_wait(lock, now).map(|age| age.as_secs_f64())
    }),
    ("lockkeeper_queue_held_seconds", "For how long the oldest holder was seen to hold, at least.", |lock, now| {
        lock.holders().filter_map(|holder| holder.held_at_least(now)).max().map(|held| held.as_secs_f64())
    }),
];

fn of_locks(text: &mut MetricsText, state: &MonitorState, now: TimePoint, named: &[NamePattern]) {
    let is_named = |name: &str| named.iter().any(|pattern| pattern.matches(name));
    let chosen = || state.model.locks().iter().filter(|(name, _)| is_named(name.as_str()));
    let room = SERIES_MAX / OF_LOCKS.len();
    for (name, help, value) in OF_LOCKS.into_iter().filter(|_| !named.is_empty()) {
        text.family(name, "gauge", help);
        for (lock, known) in chosen().take(room) {
            if let Some(value) = value(known, now) {
                text.sample(name, &[("lock", lock.as_str())], value);
            }
        }
    }
    let left_out = chosen().count().saturating_sub(room);
    let help = "Locks of the chosen names without series, for want of room.";
    text.one("lockkeeper_monitor_locks_left_out", "gauge", help, left_out as f64);
}

#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { "{" } else { "," });
            escape_label(&mut self.0, text);
            self.0.push('"');
        }
        self.0.push_str(if labels.is_empty() { "" } else { "}" });
        let _ = match value {
            f64::INFINITY => writeln!(self.0, " +Inf"),
            value => writeln!(self.0, " {value}"),
        };
    }
}

/// Writes the value of a label. What a terminal obeys is written as in messages, `\u{202e}`, and a backslash of a name
/// is doubled, so that no two names have one value. The format has each backslash of a value twice.
fn escape_label(written: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '"' => written.push_str("\\\""),
            letter if is_harmful(letter) || letter == '\\' => {
                let escaped: String = letter.escape_default().collect();
                written.push_str(&escaped.replace('\\', r"\\"));
            }
            letter => written.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::clock::BootInstant;
    use lockkeeper::{ContenderId, ContenderInfo, Mode, QueueName};

    use super::*;

    fn at(seconds: u64) -> TimePoint {
        let boot = BootInstant::from_nanos(seconds * 1_000_000_000);
        TimePoint { boot, unix: std::time::Duration::from_secs(1_000_000 + seconds) }
    }

    fn state(locks: &[&str]) -> MonitorState {
        let mut state = MonitorState::default();
        for lock in locks {
            let contender = |id: &str| ContenderInfo::new(ContenderId::new(id), Mode::Mutex);
            let queue = vec![contender("a"), contender("b"), contender("c")];
            state.model.see(&QueueName::new(lock).unwrap(), queue, None, at(10));
        }
        state
    }

    #[test]
    fn all_locks_are_counted_and_only_chosen_ones_are_named() {
        let state = state(&["nightly-a", "other \"x\"\\y"]);
        let text = text(
            &state,
            at(12),
            &[NamePattern::new("nightly-*").unwrap()],
            &AlertCounts { raised: BTreeMap::from([("held", 3)]), dropped: 2 },
        );
        for line in [
            "lockkeeper_monitor_fresh 0",
            "lockkeeper_queue_waiters{lock=\"nightly-a\"} 2",
            "lockkeeper_queue_oldest_wait_seconds{lock=\"nightly-a\"} 2",
            "lockkeeper_queue_held_seconds{lock=\"nightly-a\"} 2",
            "lockkeeper_monitor_locks_left_out 0",
            "lockkeeper_monitor_alerts_total{rule=\"held\"} 3",
            "lockkeeper_monitor_alerts_dropped_total 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("other"));
    }

    #[test]
    fn marks_in_names_are_escaped() {
        let names = ["other \"x\"", "a\u{202e}b", "a\\u{202e}b"];
        let text = text(&state(&names), at(12), &[NamePattern::new("*").unwrap()], &AlertCounts::default());
        for label in [r#"other \"x\""#, r"a\\u{202e}b", r"a\\\\u{202e}b"] {
            assert!(text.contains(&format!("lockkeeper_queue_holders{{lock=\"{label}\"}} 1\n")), "{label}: {text}");
        }
    }

    #[test]
    fn of_ten_thousand_locks_no_more_than_ten_thousand_series_are_written() {
        let names: Vec<String> = (0..10_000).map(|number| format!("lock-{number}")).collect();
        let state = state(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let text = text(&state, at(12), &[NamePattern::new("*").unwrap()], &AlertCounts::default());
        let series = text.lines().filter(|line| line.contains("lock=\"")).count();
        assert_eq!(series, SERIES_MAX);
        assert!(text.contains("lockkeeper_monitor_locks_left_out 7500\n"));
    }
}
