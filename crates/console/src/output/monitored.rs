//! Locks as a monitor knows them, in the shapes of its HTTP answers. A contender has the fields of `show --json`, and
//! since when it holds as far as that was seen.

use lockkeeper_monitor::{
    CollectionMode, KnownContender, KnownLock, MonitorState, SeenEvent, ServiceFreshness, TimePoint,
};
use serde::Serialize;

use super::locks::EntryState;
use super::marks::{kind_of, oldest_wait};
use super::who::{ContenderView, date, millis};

#[derive(Debug, Serialize)]
pub(crate) struct MonitoredLocks {
    service: String,
    freshness: AnswerAge,
    /// How many there are that were asked for, also beyond those that are listed.
    total: usize,
    locks: Vec<MonitoredLock>,
    /// The name after which the next ones come; `null` behind the last one.
    next_after: Option<String>,
}

/// How old an answer may be.
#[derive(Debug, Serialize)]
pub(crate) struct AnswerAge {
    state: &'static str,
    /// How long ago the answer was true; `null` if nothing was seen yet.
    seen_ms_ago: Option<u64>,
    /// Since when that is so, if the service cannot be asked any more.
    stale_since: Option<String>,
    trouble: Option<String>,
    /// How often the service is looked at; `null` where it tells of each change.
    period_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct MonitoredLock {
    name: String,
    kind: Option<&'static str>,
    permits: Option<u32>,
    holders: Vec<MonitoredContender>,
    waiters: usize,
    oldest_wait_ms: Option<u64>,
}

/// One lock with all of its contenders, as `/api/locks/NAME` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct MonitoredQueue {
    service: String,
    freshness: AnswerAge,
    name: String,
    kind: Option<&'static str>,
    permits: Option<u32>,
    contenders: Vec<MonitoredContender>,
}

#[derive(Debug, Serialize)]
struct MonitoredContender {
    position: usize,
    state: EntryState,
    #[serde(flatten)]
    who: ContenderView,
    /// How long it was seen to hold.
    held_at_least_ms: Option<u64>,
    /// It does not hold longer than this.
    held_at_most_ms: Option<u64>,
}

/// What has happened, as `/api/events` tells it.
#[derive(Debug, Serialize)]
pub(crate) struct EventList {
    service: String,
    freshness: AnswerAge,
    events: Vec<EventRow>,
    /// The number from which on to ask next.
    next_from: u64,
}

#[derive(Debug, Serialize)]
struct EventRow {
    number: u64,
    at: String,
    lock: String,
    event: &'static str,
    contender: ContenderView,
}

impl AnswerAge {
    pub(crate) fn new(known: &MonitorState, now: TimePoint) -> Self {
        let age = known.freshness.age(now.boot);
        let (state, stale_since) = match known.freshness {
            ServiceFreshness::Fresh(_) => ("fresh", None),
            ServiceFreshness::Stale(..) => ("stale", age.map(|age| date(now.unix.saturating_sub(age)))),
            _ => ("unseen", None),
        };
        let period_ms = match known.way {
            CollectionMode::Looks(period) => Some(millis(period)),
            _ => None,
        };
        let trouble = known.freshness.trouble().map(|error| format!("{error:#}"));
        Self { state, seen_ms_ago: age.map(millis), stale_since, trouble, period_ms }
    }
}

impl MonitoredLocks {
    /// Lists the locks whose names begin with `prefix` and come after `after`, at most so many.
    pub(crate) fn new(
        service: String,
        known: &MonitorState,
        now: TimePoint,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Self {
        let begins = known.model.locks().iter().filter(|(name, _)| name.as_str().starts_with(prefix));
        let (mut total, mut locks, mut is_cut) = (0, Vec::new(), false);
        for (name, lock) in begins {
            total += 1;
            if after.is_some_and(|after| name.as_str() <= after) {
                continue;
            }
            if locks.len() < limit {
                locks.push(MonitoredLock::new(name.as_str(), lock, now));
            } else {
                is_cut = true;
            }
        }
        let next_after = locks.last().filter(|_| is_cut).map(|last| last.name.clone());
        Self { service, freshness: AnswerAge::new(known, now), total, locks, next_after }
    }
}

impl MonitoredLock {
    fn new(name: &str, lock: &KnownLock, now: TimePoint) -> Self {
        let (holders, waiters): (Vec<_>, Vec<_>) =
            contenders(lock, now).into_iter().partition(|contender| contender.state == EntryState::Holder);
        Self {
            name: name.to_owned(),
            kind: kind_of(lock),
            permits: lock.permits,
            holders,
            waiters: waiters.len(),
            oldest_wait_ms: oldest_wait(lock, now).map(millis),
        }
    }
}

impl MonitoredQueue {
    /// Shows a lock; one without contenders is free.
    pub(crate) fn new(
        service: String,
        known: &MonitorState,
        now: TimePoint,
        name: &str,
        lock: Option<&KnownLock>,
    ) -> Self {
        Self {
            service,
            freshness: AnswerAge::new(known, now),
            name: name.to_owned(),
            kind: lock.and_then(kind_of),
            permits: lock.and_then(|lock| lock.permits),
            contenders: lock.map(|lock| contenders(lock, now)).unwrap_or_default(),
        }
    }
}

impl EventList {
    /// Tells of events, the oldest first.
    pub(crate) fn new<'a>(
        service: String,
        known: &MonitorState,
        now: TimePoint,
        events: impl Iterator<Item = &'a SeenEvent>,
        next_from: u64,
    ) -> Self {
        let event = |event: &SeenEvent| EventRow {
            number: event.number,
            at: date(event.at_unix),
            lock: event.lock.as_str().to_owned(),
            event: event.kind.as_str(),
            contender: ContenderView::new(&event.contender, event.at_unix),
        };
        Self { service, freshness: AnswerAge::new(known, now), events: events.map(event).collect(), next_from }
    }
}

fn contenders(lock: &KnownLock, now: TimePoint) -> Vec<MonitoredContender> {
    let contender = |(position, one): (usize, &KnownContender)| {
        let who = ContenderView::new(&one.info, now.unix);
        let (state, who) = match one.hold {
            Some(_) => (EntryState::Holder, who.granted()),
            None => (EntryState::Waiter, who),
        };
        MonitoredContender {
            position: position + 1,
            state,
            who,
            held_at_least_ms: one.held_at_least(now).map(millis),
            held_at_most_ms: one.held_at_most(now).map(millis),
        }
    };
    lock.contenders.iter().enumerate().map(contender).collect()
}
