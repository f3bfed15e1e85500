//! The findings in the present state, and the rules and thresholds by which they are worth an alert.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use lockkeeper::{ContenderId, ContenderInfo, Mode, QueueName};

use crate::breaches::SeenBreach;
use crate::collect::{MonitorState, ServiceFreshness};
use crate::confirmation::{DeadlockVerdict, Judged};
use crate::known::KnownLock;
use crate::losses::LOSS_COUNTS_FOR;
use crate::moment::TimePoint;

/// What an alert is about: the same for as long as the same thing is wrong.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum About {
    /// A promise of this lock was broken.
    Breach(QueueName),
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
    /// What no lock may show.
    Breach(Box<SeenBreach>),
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
            Self::Breach(_) => Rule::Breach,
            Self::Jeopardy(..) => Rule::Jeopardy,
            Self::Unreachable => Rule::Unreachable,
        }
    }

    /// Returns the lock that it is about, if it is one.
    pub fn lock(&self) -> Option<&QueueName> {
        match self {
            Self::Deadlock(core) => core.first().map(|(lock, _)| lock),
            Self::Held(lock, _) | Self::Jeopardy(lock, _) => Some(lock),
            Self::Waiters(lock) | Self::Lost(lock) | Self::Breach(lock) => Some(lock),
            Self::Unreachable => None,
        }
    }

    /// Returns the locks that it is about.
    pub fn locks(&self) -> impl Iterator<Item = &QueueName> {
        let core = match self {
            Self::Deadlock(core) => Some(core),
            _ => None,
        };
        let others = self.lock().filter(|_| core.is_none());
        core.into_iter().flatten().map(|(lock, _)| lock).chain(others)
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

/// Tells since when an alert of a long hold goes on.
pub(super) type HeldSince<'a> = &'a dyn Fn(&About) -> Option<Duration>;

/// Finds what is wrong with the locks, while what is known of them is true. `held_since` tells of the alerts of long
/// holds that go on, if there are any.
pub(super) fn of_locks(
    state: &MonitorState,
    now: TimePoint,
    thresholds: impl Fn(&QueueName) -> Thresholds,
    held_since: Option<HeldSince<'_>>,
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
    let broken = |(name, seen): (&QueueName, SeenBreach)| {
        (About::Breach(name.clone()), Symptom::Wrong(AlertFinding::Breach(Box::new(seen))))
    };
    found.extend(state.model.breaches(now.boot).map(broken));
    found.extend(frequent_losses(state, now, &thresholds));
    // Of a lock that no contender waits for, only an alert that goes on may have to be told, or a silent holder.
    let is_calm = held_since.is_none() && !state.model.has_silent();
    let all = (!is_calm).then(|| state.model.locks().iter()).into_iter().flatten();
    let contended = is_calm.then(|| state.model.contended_locks()).into_iter().flatten();
    for (name, lock) in all.chain(contended) {
        found.extend(silent_holders(state, name, lock, now));
        let thresholds = thresholds(name);
        let waiters = lock.waiters().count();
        // A leader leads for as long as it can.
        let is_election = lock.contenders.first().is_some_and(|first| first.info.mode == Mode::Candidate);
        if is_election {
            continue;
        }
        found.extend(long_holds(name, lock, waiters, thresholds.held, now, held_since));
        let finding = || {
            let holder = lock.holders().next().map(|holder| Box::new((*holder.info).clone()));
            AlertFinding::Waiters { waiters, holder }
        };
        let symptom = match u32::try_from(waiters).unwrap_or(u32::MAX) {
            count if count > thresholds.waiters => Symptom::Wrong(finding()),
            count if count > thresholds.calm() => Symptom::Middling(finding()),
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
        let (holder_info, since_unix) = (Box::new((*holder.info).clone()), now.unix.saturating_sub(silent));
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
    held_since: Option<HeldSince<'a>>,
) -> impl Iterator<Item = (About, Symptom)> + 'a {
    lock.holders().filter_map(move |holder| {
        let seen = holder.held_at_least(now)?;
        let is_wrong = seen > most && waiters > 0;
        // Of most holders there is nothing to tell, and each second all are judged.
        if !is_wrong && held_since.is_none() {
            return None;
        }
        let about = About::Held(name.clone(), holder.info.id.clone());
        let told = held_since.and_then(|since| since(&about)).map(|since| now.unix.saturating_sub(since));
        if !is_wrong && told.is_none() {
            return None;
        }
        let at_least = seen.max(told.unwrap_or_default());
        let (holder_info, since_unix) = (Box::new((*holder.info).clone()), now.unix.saturating_sub(at_least));
        let finding = AlertFinding::Held { holder: holder_info, at_least, since_unix, waiters };
        Some((about, if is_wrong { Symptom::Wrong(finding) } else { Symptom::Middling(finding) }))
    })
}

/// How many waiters a lock may have without an alert, unless an operator says otherwise.
const WAITERS: u32 = 10;

/// How long a lock may be held while others wait, unless an operator says otherwise.
const HELD: Duration = Duration::from_secs(5 * 60);

/// How often a lock may be lost within ten minutes without an alert, and once more is one, unless an operator says
/// otherwise: two programs may be ended together.
const LOSSES: u32 = 2;

/// How long a holder that was in jeopardy before a restart, or by another monitor's word, is not seen to be before that
/// is over: half a session timeout passes before one is seen to be silent, and how long it is was not noted. Few
/// timeouts are longer than ten minutes.
const JEOPARDY_SAID_FOR: Duration = Duration::from_secs(5 * 60);

/// What is wrong with a lock or with the view of it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Rule {
    /// A lock shows what it may never show: two hold it, or the order or the tokens are broken.
    Breach,
    /// Contenders wait for each other.
    Deadlock,
    /// One contender holds for long while others wait.
    Held,
    /// Many contenders wait.
    Waiters,
    /// Holders have lost the lock again and again.
    Lost,
    /// A holder gives no sign of life.
    Jeopardy,
    /// The service cannot be asked.
    Unreachable,
}

/// From which numbers on a lock is worth an alert.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// More waiters than this are too many.
    pub waiters: u32,
    /// A hold for longer than this is too long.
    pub held: Duration,
    /// More losses than this within ten minutes are too many.
    pub losses: u32,
}

impl Thresholds {
    /// Sets all of them.
    pub const fn new(waiters: u32, held: Duration, losses: u32) -> Self {
        Self { waiters, held, losses }
    }

    /// An alert of too many waiters ends when no more than this many wait: four fifths, so that a number that goes up
    /// and down at the threshold is one alert.
    pub(super) const fn calm(&self) -> u32 {
        (self.waiters as u64 * 4 / 5) as u32
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::new(WAITERS, HELD, LOSSES)
    }
}

impl Rule {
    /// All rules, in the order of their weight.
    pub const ALL: [Self; 7] =
        [Self::Breach, Self::Deadlock, Self::Held, Self::Waiters, Self::Lost, Self::Jeopardy, Self::Unreachable];

    /// Returns its name, as alerts and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Breach => "breach",
            Self::Deadlock => "deadlock",
            Self::Held => "held",
            Self::Waiters => "waiters",
            Self::Lost => "lost",
            Self::Jeopardy => "jeopardy",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns how long something is wrong before it is told. What is found to hold for long or to be a deadlock has
    /// been so for long enough, as have losses in ten minutes, and a session that was silent for half its timeout. Of
    /// two that hold one may just have left, unseen.
    pub(super) const fn raised_after(self) -> Duration {
        match self {
            Self::Deadlock | Self::Held | Self::Lost | Self::Jeopardy => Duration::ZERO,
            Self::Breach => Duration::from_secs(2),
            Self::Waiters => Duration::from_secs(10),
            Self::Unreachable => Duration::from_secs(30),
        }
    }

    /// Returns how long it is not wrong any more before that is told. A deadlock is searched for some time after all
    /// locks were seen anew. What was told of a lock's losses before a restart or by another monitor is not over before
    /// none was seen for as long as each of them counts. Over a new connection to the service a session is silent only
    /// after half its timeout anew.
    pub(super) fn ended_after(self, finding: &AlertFinding) -> Duration {
        match (self, finding) {
            (Self::Lost, AlertFinding::Said(_)) => LOSS_COUNTS_FOR,
            (Self::Held | Self::Lost | Self::Breach, _) => Duration::ZERO,
            (Self::Deadlock, _) => Duration::from_secs(2),
            (Self::Waiters, _) => Duration::from_secs(30),
            (Self::Jeopardy, AlertFinding::Jeopardy { timeout, .. }) => *timeout / 2 + Duration::from_secs(10),
            (Self::Jeopardy, _) => JEOPARDY_SAID_FOR,
            (Self::Unreachable, _) => Duration::from_secs(10),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
