//! The problems, the worst first: a service that cannot be asked, deadlocks with their way out, locks that are held for
//! long or that many wait for, frozen locks.

use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::alerts::{Alert, AlertFinding, Rule};
use lockkeeper_monitor::{DeadlockVerdict, Judged, KnownLock, MonitorState, ServiceFreshness, TimePoint};

use super::contender::name;
use crate::output::marks::{self, hour, locks_of, told_deadlocks};
use crate::output::{DeadlockReport, OrderCommands, breach, brief, waiting};

/// How many are told, the worst ones; `lockkeeper deadlocks` prints all deadlocks.
const PROBLEMS_MAX: usize = 50;

#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) weight: Weight,
    pub(super) what: String,
    /// What an operator does about it, if that is known.
    pub(super) cure: Option<String>,
    /// More of it, as lines.
    pub(super) more: Vec<String>,
    /// The locks that it is about.
    pub(super) locks: Vec<QueueName>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weight {
    Bad,
    Mild,
}

pub(super) fn problems(state: &MonitorState, firing: &[Alert], orders: &OrderCommands, now: TimePoint) -> Vec<Problem> {
    let (sure, unsure) = told_deadlocks(state);
    let deadlock = |judged: &Judged| deadlock(judged, orders, now);
    let mut found: Vec<Problem> = stale(state, now).into_iter().collect();
    let (broken, others): (Vec<_>, Vec<_>) = firing.iter().partition(|alert| alert.about.rule() == Rule::Breach);
    found.extend(broken.into_iter().filter_map(|alert| of_lock(alert, orders, now)));
    found.extend(sure.into_iter().map(deadlock));
    found.extend(others.into_iter().filter_map(|alert| of_lock(alert, orders, now)));
    found.extend(state.model.locks().iter().filter_map(|(name, lock)| frozen(name, lock, orders, now)));
    found.extend(unsure.into_iter().map(deadlock));
    found.truncate(PROBLEMS_MAX);
    found
}

/// A service that cannot be asked: what is shown was true last at a moment in the past.
fn stale(state: &MonitorState, now: TimePoint) -> Option<Problem> {
    let trouble = state.freshness.trouble()?;
    let what = match (&state.freshness, state.freshness.age(now.boot)) {
        (ServiceFreshness::Stale(..), Some(age)) => {
            let since = hour(now.unix.saturating_sub(age));
            format!("stale since {since} UTC, for {}: {trouble:#}", brief(age))
        }
        _ => format!("nothing seen yet: {trouble:#}"),
    };
    Some(Problem { weight: Weight::Bad, what, cure: None, more: Vec::new(), locks: Vec::new() })
}

fn deadlock(judged: &Judged, orders: &OrderCommands, now: TimePoint) -> Problem {
    let told = DeadlockReport::new(judged, orders, now.boot, now.unix);
    let since = brief(now.boot.saturating_duration_since(judged.since));
    let mut way_out = told.way_out().into_iter();
    let what = way_out.next().map(|what| format!("way out: {what}"));
    let order = way_out.next();
    let mut more: Vec<String> = (1..).zip(told.chain()).map(|(number, line)| format!("{number}. {line}")).collect();
    more.extend(what.clone());
    let mut locks: Vec<_> = locks_of(judged).collect();
    locks.dedup();
    Problem {
        weight: if judged.verdict == DeadlockVerdict::Possible { Weight::Mild } else { Weight::Bad },
        what: format!("{}, for {since}: {}", told.headline(), judged.deadlock.locks().join(", ")),
        cure: order.or(what),
        more,
        locks,
    }
}

fn of_lock(alert: &Alert, orders: &OrderCommands, now: TimePoint) -> Option<Problem> {
    let lock = alert.about.lock()?;
    let lasts = |since: &Duration| brief(now.unix.saturating_sub(*since));
    let (what, cure) = match &alert.finding {
        // A separate problem tells of these.
        AlertFinding::Deadlock(_) | AlertFinding::Unreachable(_) => return None,
        AlertFinding::Held { holder, since_unix, waiters, .. } => {
            let (who, held) = (name(holder), lasts(since_unix));
            let what = format!("held long: {lock}, by {who} for {held} or longer; {}", waiting(*waiters));
            (what, Some(orders.shell_line(&["revoke"], lock.as_str())))
        }
        AlertFinding::Waiters { waiters, .. } => (format!("long queue: {lock}; {}", waiting(*waiters)), None),
        AlertFinding::Lost { losses } => {
            (format!("lost often: {lock}; {losses} holders in the last ten minutes"), None)
        }
        AlertFinding::Jeopardy { holder, since_unix, timeout, .. } => {
            let (who, silent, timeout) = (name(holder), lasts(since_unix), brief(*timeout));
            (format!("no sign of life: {lock}, of {who} for {silent}; after {timeout} it loses the lock"), None)
        }
        AlertFinding::Breach(seen) => (format!("broken promise: {lock}; {}", breach(seen, name)), None),
        AlertFinding::Said(said) => (said.clone(), None),
        // A rule without words here yet.
        _ => (format!("{}: {lock}", alert.about.rule()), None),
    };
    let weight = if alert.about.rule() == Rule::Breach { Weight::Bad } else { Weight::Mild };
    Some(Problem { weight, what, cure, more: Vec::new(), locks: vec![lock.clone()] })
}

/// A lock that is frozen while contenders wait for it.
fn frozen(lock: &QueueName, known: &KnownLock, orders: &OrderCommands, now: TimePoint) -> Option<Problem> {
    let (freezer, reason, waiters) = marks::frozen(known)?;
    let (since, waiting) = (brief(freezer.age(now)), waiting(waiters));
    Some(Problem {
        weight: Weight::Mild,
        what: format!("frozen: {lock}, for {since}; {waiting} until it is thawed: {reason}"),
        cure: Some(orders.shell_line(&["thaw"], lock.as_str())),
        more: Vec::new(),
        locks: vec![lock.clone()],
    })
}

#[cfg(test)]
mod tests {
    use lockkeeper::clock::BootInstant;
    use lockkeeper::{ContenderId, ContenderInfo, Mode};
    use lockkeeper_monitor::alerts::About;
    use lockkeeper_monitor::{Breach, SeenBreach};

    use super::*;

    #[test]
    fn each_alert_of_a_lock_is_told_in_a_line() {
        let now = TimePoint { boot: BootInstant::from_nanos(0), unix: Duration::from_secs(1_000) };
        let (lock, id) = (QueueName::new("nightly").unwrap(), ContenderId::new("c7"));
        let holder = || Box::new(ContenderInfo::new(id.clone(), Mode::Mutex));
        let (since_unix, seen) = (Duration::from_secs(640), Duration::from_secs(359));
        let timeout = Duration::from_secs(600);
        let who = name(&holder());
        for (about, finding, line) in [
            (
                About::Held(lock.clone(), id.clone()),
                AlertFinding::Held { holder: holder(), at_least: seen, since_unix, waiters: 1 },
                format!("held long: nightly, by {who} for 6m00s or longer; 1 waits"),
            ),
            (
                About::Waiters(lock.clone()),
                AlertFinding::Waiters { waiters: 11, holder: None },
                "long queue: nightly; 11 wait".to_owned(),
            ),
            (
                About::Lost(lock.clone()),
                AlertFinding::Lost { losses: 3 },
                "lost often: nightly; 3 holders in the last ten minutes".to_owned(),
            ),
            (
                About::Jeopardy(lock.clone(), id.clone()),
                AlertFinding::Jeopardy { holder: holder(), silent: seen, since_unix, timeout },
                format!("no sign of life: nightly, of {who} for 6m00s; after 10m00s it loses the lock"),
            ),
            (
                About::Breach(lock.clone()),
                AlertFinding::Breach(Box::new(SeenBreach::new(Breach::Overtaken, *holder(), *holder()))),
                format!("broken promise: nightly; {who} held it, and {who} stands ahead of it now: both may hold it"),
            ),
            (About::Lost(lock.clone()), AlertFinding::Said("it was lost".to_owned()), "it was lost".to_owned()),
        ] {
            let alert = Alert::new(about, finding, since_unix);
            let told = of_lock(&alert, &OrderCommands::new(None, None), now).unwrap();
            assert_eq!((told.what, told.locks), (line, vec![lock.clone()]));
        }
    }
}
