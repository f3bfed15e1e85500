//! The locks as they are shown: texts as their clients wrote them, which only `draw` escapes.

use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::alerts::Alert;
use lockkeeper_monitor::{CollectionMode, KnownLock, MonitorState, ServiceFreshness, TimePoint};

use super::contender::{self, ContenderLine, held_for};
use super::past::{past_lines, waited_in_list};
use super::problems::{Problem, problems};
use super::query::{Query, QueryMatches};
use crate::output::marks::{NAMED_MAX, age_max, all_waits, freezer, longest_hold, oldest_wait, shown_kind};
use crate::output::{LockMark, LockMarks, OrderCommands, brief};

/// How many contenders of a queue are shown, from its head; `show` prints all.
const CONTENDERS_MAX: usize = 1_000;

/// All that can be on the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct ScreenData {
    pub(super) freshness: Badge,
    pub(super) problems: Vec<Problem>,
    pub(super) sum: Sum,
    pub(super) rows: Vec<LockLine>,
    /// How many locks the filter asks for, also beyond the rows.
    pub(super) total: usize,
    /// The queue that is looked into.
    pub(super) queue: Vec<ContenderLine>,
    /// How many contenders it has beyond these.
    pub(super) queue_more: usize,
    /// What was of its lock.
    pub(super) past: Vec<String>,
    /// The line of its lock.
    pub(super) lock: Option<LockLine>,
    /// The line of the lock that is chosen in the list, which may have no room among the rows.
    pub(super) chosen: Option<LockLine>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Badge {
    pub(super) text: String,
    pub(super) is_fresh: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) locks: usize,
    pub(super) waiting: usize,
    pub(super) longest: Option<(Duration, QueueName)>,
}

#[derive(Clone, Debug)]
pub(super) struct LockLine {
    pub(super) lock: QueueName,
    /// As what it is used; empty if nothing tells.
    pub(super) kind: String,
    pub(super) waiters: usize,
    /// How many waited in the last hour, as letters; empty if none has.
    pub(super) hour: String,
    pub(super) oldest: Option<Duration>,
    pub(super) held: Option<String>,
    pub(super) holders: String,
    pub(super) mark: LockMark,
    /// Those that hold, as far as they are named.
    pub(super) holding: Vec<ContenderLine>,
    /// What freezes it, or waits to.
    pub(super) freezer: Option<ContenderLine>,
}

impl ScreenData {
    /// Collects what is to be shown: the locks that `query` asks for, `chosen` too, and the queue of `lock`.
    pub(super) fn new(
        state: &MonitorState,
        firing: &[Alert],
        orders: &OrderCommands,
        query: &Query,
        lock: Option<&QueueName>,
        chosen: Option<&QueueName>,
        now: TimePoint,
    ) -> Self {
        let marked = LockMarks::new(state, firing);
        let QueryMatches { locks, total } = query.choose(&state.model, now);
        let row = |name: &QueueName, lock: &KnownLock| {
            let hour = waited_in_list(state, name, now);
            LockLine { hour, ..LockLine::new(name, lock, marked.of(name, lock), now) }
        };
        let known = lock.and_then(|name| state.model.locks().get_key_value(name));
        let contenders = known.map(|(_, lock)| lock.contenders.as_slice()).unwrap_or_default();
        let chosen = chosen.and_then(|name| state.model.locks().get_key_value(name));
        let chosen = chosen.filter(|(name, lock)| query.finds(name, lock));
        let shown = (1..).zip(contenders).take(CONTENDERS_MAX);
        Self {
            freshness: Badge::new(state, now),
            problems: problems(state, firing, orders, now),
            sum: Sum::new(state, now),
            rows: locks.into_iter().map(|(name, lock)| row(name, lock)).collect(),
            total,
            queue: shown.map(|(position, one)| ContenderLine::new(position, one, now)).collect(),
            past: lock.map(|name| past_lines(state, name, now)).unwrap_or_default(),
            queue_more: contenders.len().saturating_sub(CONTENDERS_MAX),
            lock: known.map(|(name, lock)| row(name, lock)),
            chosen: chosen.map(|(name, lock)| row(name, lock)),
        }
    }
}

impl Badge {
    fn new(state: &MonitorState, now: TimePoint) -> Self {
        let age = state.freshness.age(now.boot);
        let text = match (&state.freshness, age) {
            (ServiceFreshness::Fresh(_), Some(age)) if age <= age_max(state.way) => {
                let text = match state.way {
                    CollectionMode::Looks(period) => {
                        format!("seen {} ago, looked at each {}", brief(age), brief(period))
                    }
                    _ => "live".to_owned(),
                };
                return Self { text, is_fresh: true };
            }
            (_, Some(age)) => format!("stale for {}", brief(age)),
            (_, None) => "nothing seen yet".to_owned(),
        };
        Self { text, is_fresh: false }
    }
}

impl Sum {
    fn new(state: &MonitorState, now: TimePoint) -> Self {
        let (waiting, longest) = all_waits(state, now);
        let longest = longest.map(|(age, name)| (age, name.clone()));
        Self { locks: state.model.locks().len(), waiting, longest }
    }
}

impl LockLine {
    fn new(name: &QueueName, lock: &KnownLock, mark: LockMark, now: TimePoint) -> Self {
        let numbered = || (1..).zip(&lock.contenders);
        let holding = numbered().filter(|(_, one)| one.hold.is_some() && one.info.frozen.is_none());
        let freezer = numbered().find(|(_, one)| one.info.frozen.is_some());
        Self {
            lock: name.clone(),
            kind: shown_kind(lock, "rwlock"),
            waiters: lock.waiters().count(),
            hour: String::new(),
            oldest: oldest_wait(lock, now),
            held: longest_hold(lock, now).map(held_for),
            holders: holders(lock),
            mark,
            holding: holding.take(NAMED_MAX).map(|(position, one)| ContenderLine::new(position, one, now)).collect(),
            freezer: freezer.map(|(position, one)| ContenderLine::new(position, one, now)),
        }
    }

    /// A lock that nothing is known of: it has no contenders.
    pub(super) fn free(lock: &QueueName) -> Self {
        Self {
            lock: lock.clone(),
            kind: String::new(),
            waiters: 0,
            hour: String::new(),
            oldest: None,
            held: None,
            holders: "free".to_owned(),
            mark: LockMark::None,
            holding: Vec::new(),
            freezer: None,
        }
    }
}

fn holders(lock: &KnownLock) -> String {
    if let Some(reason) = freezer(lock).and_then(|one| one.info.frozen.as_deref()) {
        return format!("frozen: {reason}");
    }
    let names: Vec<_> = lock.holders().take(NAMED_MAX).map(|holder| contender::name(&holder.info)).collect();
    let more = lock.holders().count().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}
