//! The findings of now, by what is known of all locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper::{ContenderId, ContenderInfo, Mode, QueueName};

use super::rule::{Rule, Thresholds};
use crate::collect::{MonitorState, ServiceFreshness};
use crate::confirmation::{DeadlockVerdict, Judged};
use crate::model::{KnownLock, TimePoint};

/// What an alert is about: the same for as long as the same thing is wrong.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum About {
    /// The contenders that wait for each other.
    Deadlock(BTreeSet<(QueueName, ContenderId)>),
    /// This contender holds this lock.
    Held(QueueName, ContenderId),
    /// This lock has many waiters.
    Waiters(QueueName),
    /// This lock is lost again and again.
    Lost(QueueName),
    /// This contender holds this lock, and gives no sign of life.
    Jeopardy(QueueName, ContenderId),
    /// The service.
    Unreachable,
}

/// Something that is wrong, as it is now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AlertFinding {
    /// A known deadlock.
    Deadlock(Judged),
    /// A hold that is too long.
    Held {
        /// The holder.
        holder: Box<ContenderInfo>,
        /// For how long it holds at least.
        at_least: Duration,
        /// Since when, in time since 1970-01-01 UTC.
        since_unix: Duration,
        /// How many wait.
        waiters: usize,
    },
    /// Too many waiters.
    Waiters {
        /// How many there are.
        waiters: usize,
        /// The contender that holds, if one does; of several the first.
        holder: Option<Box<ContenderInfo>>,
    },
    /// Too many losses.
    Lost {
        /// How many there were in the last ten minutes.
        losses: usize,
    },
    /// A holder that gives no sign of life.
    Jeopardy {
        /// The holder.
        holder: Box<ContenderInfo>,
        /// For how long its session is silent at least.
        silent: Duration,
        /// Since when, in time since 1970-01-01 UTC.
        since_unix: Duration,
        /// After how long a silence its session is ended.
        timeout: Duration,
    },
    /// The service cannot be asked, for this reason.
    Unreachable(String),
    /// This was said of it, before a restart or by another monitor, and nothing was found of it since.
    Said(String),
}

/// Whether something is wrong, and how the alert of it goes on if it was.
#[derive(Clone, Debug)]
pub(super) enum Symptom {
    /// It is wrong.
    Wrong(AlertFinding),
    /// It is not so wrong that an alert begins, and too wrong for one to end.
    Middling(AlertFinding),
}

impl About {
    /// Returns the rule by which it is wrong.
    pub const fn rule(&self) -> Rule {
        match self {
            Self::Deadlock(_) => Rule::Deadlock,
            Self::Held(..) => Rule::Held,
            Self::Waiters(_) => Rule::Waiters,
            Self::Lost(_) => Rule::Lost,
            Self::Jeopardy(..) => Rule::Jeopardy,
            Self::Unreachable => Rule::Unreachable,
        }
    }

    /// Returns the lock that it is about, if it is one.
    pub fn lock(&self) -> Option<&QueueName> {
        match self {
            Self::Deadlock(core) => core.first().map(|(lock, _)| lock),
            Self::Held(lock, _) | Self::Waiters(lock) | Self::Lost(lock) | Self::Jeopardy(lock, _) => Some(lock),
            Self::Unreachable => None,
        }
    }
}

/// Finds what is wrong with the service.
pub(super) fn of_service(state: &MonitorState) -> Option<Symptom> {
    let trouble = match &state.freshness {
        ServiceFreshness::Fresh(_) => return None,
        ServiceFreshness::Nothing => "it has not answered yet".to_owned(),
        ServiceFreshness::Unreached(error) | ServiceFreshness::Stale(_, error) => format!("{error:#}"),
    };
    Some(Symptom::Wrong(AlertFinding::Unreachable(trouble)))
}

/// Finds what is wrong with the locks, while what is known of them is true. `firing_since` tells of the alerts that go
/// on.
pub(super) fn of_locks(
    state: &MonitorState,
    now: TimePoint,
    thresholds: impl Fn(&QueueName) -> Thresholds,
    firing_since: impl Fn(&About) -> Option<Duration>,
) -> BTreeMap<About, Symptom> {
    let mut found = BTreeMap::new();
    for judged in &state.deadlocks {
        let finding = AlertFinding::Deadlock(judged.clone());
        let symptom = match judged.verdict {
            DeadlockVerdict::Known => Symptom::Wrong(finding),
            // It is none yet, or none that an operator should end; one that was told is not over by that.
            DeadlockVerdict::Unconfirmed | DeadlockVerdict::EndsSoon(_) => Symptom::Middling(finding),
            DeadlockVerdict::Possible => continue,
        };
        found.insert(About::Deadlock(judged.deadlock.core.clone()), symptom);
    }
    found.extend(frequent_losses(state, now, &thresholds));
    for (name, lock) in state.model.locks() {
        found.extend(silent_holders(state, name, lock, now));
        let thresholds = thresholds(name);
        let waiters = lock.waiters().count();
        // A leader leads for as long as it can.
        let is_election = lock.contenders.first().is_some_and(|first| first.info.mode == Mode::Candidate);
        if is_election {
            continue;
        }
        found.extend(long_holds(name, lock, waiters, thresholds.held, now, &firing_since));
        let holder = lock.holders().next().map(|holder| Box::new(holder.info.clone()));
        let symptom = match u32::try_from(waiters).unwrap_or(u32::MAX) {
            count if count > thresholds.waiters => Symptom::Wrong(AlertFinding::Waiters { waiters, holder }),
            count if count > thresholds.calm() => Symptom::Middling(AlertFinding::Waiters { waiters, holder }),
            _ => continue,
        };
        found.insert(About::Waiters(name.clone()), symptom);
    }
    found
}

/// Finds the locks that are lost more often than they may be. One that was is well when it was not for ten minutes.
fn frequent_losses<'a>(
    state: &'a MonitorState,
    now: TimePoint,
    thresholds: &'a impl Fn(&QueueName) -> Thresholds,
) -> impl Iterator<Item = (About, Symptom)> + 'a {
    state.model.lost_lately(now.boot).map(|(name, losses)| {
        let finding = AlertFinding::Lost { losses };
        let is_often = u32::try_from(losses).unwrap_or(u32::MAX) > thresholds(name).losses;
        (About::Lost(name.clone()), if is_often { Symptom::Wrong(finding) } else { Symptom::Middling(finding) })
    })
}

/// Finds the holders whose sessions give no sign of life: the leader of an election too, for its followers wait to be
/// told.
fn silent_holders<'a>(
    state: &'a MonitorState,
    name: &'a QueueName,
    lock: &'a KnownLock,
    now: TimePoint,
) -> impl Iterator<Item = (About, Symptom)> + 'a {
    lock.holders().filter_map(move |holder| {
        let silence = state.model.silence(&holder.info)?;
        let (silent, timeout) = (now.boot.saturating_duration_since(silence.since), silence.timeout);
        let (holder_info, since_unix) = (Box::new(holder.info.clone()), now.unix.saturating_sub(silent));
        let finding = AlertFinding::Jeopardy { holder: holder_info, silent, since_unix, timeout };
        Some((About::Jeopardy(name.clone(), holder.info.id.clone()), Symptom::Wrong(finding)))
    })
}

/// Finds the holders that hold for longer than this, or did when that was told: what was seen of a hold may be shorter
/// after a restart. With no waiter behind them an alert does not begin, and goes on.
fn long_holds<'a>(
    name: &'a QueueName,
    lock: &'a KnownLock,
    waiters: usize,
    most: Duration,
    now: TimePoint,
    firing_since: &'a impl Fn(&About) -> Option<Duration>,
) -> impl Iterator<Item = (About, Symptom)> + 'a {
    lock.holders().filter_map(move |holder| {
        let about = About::Held(name.clone(), holder.info.id.clone());
        let seen = holder.held_at_least(now)?;
        let told = firing_since(&about).map(|since| now.unix.saturating_sub(since));
        let at_least = seen.max(told.unwrap_or_default());
        let (holder_info, since_unix) = (Box::new(holder.info.clone()), now.unix.saturating_sub(at_least));
        let finding = AlertFinding::Held { holder: holder_info, at_least, since_unix, waiters };
        match (seen > most && waiters > 0, seen > most || told.is_some()) {
            (true, _) => Some((about, Symptom::Wrong(finding))),
            (false, true) => Some((about, Symptom::Middling(finding))),
            (false, false) => None,
        }
    })
}
