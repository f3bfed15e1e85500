//! The waits, and which is to be looked at when: rules of events and times, without a clock or a connection.

mod due;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, Ticket};
use lockkeeper_session::Random;
use tokio::sync::oneshot;

use crate::session::waits::handoff_rate::{HandoffRate, WaitLine};

/// How long after it began, and after each look, the wait for the nearest contender is looked at …
const LOOK_MIN: Duration = Duration::from_millis(50);

/// … and as much later for each contender between, since each hand-off takes about that long; at most this.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How long after it began a wait for a change ends in a look where nothing tells of changes. A look shows the whole
/// queue: it costs more than that at one contender.
const CHANGE_LOOK: Duration = Duration::from_millis(200);

/// Looks are spread by this part of their interval, so that processes that began together do not look together.
const JITTER_PERCENT: u32 = 25;

/// How many departures are remembered that no wait was there for: one that is told while the answer to a join is read
/// has no wait yet.
const UNAWAITED_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitEnd {
    /// The contender is gone.
    Departed,
    /// What is waited for may have changed.
    Look,
    /// The contender seems to live, or cannot be removed now.
    Stays,
    /// The connection is over; what happened since is not known.
    ConnectionOver,
}

/// How waits are told now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WakeState {
    /// The server tells this session since this moment.
    Told { since: BootInstant },
    /// The session is about to listen; what is waited for is looked at after that.
    Soon,
    /// Each wait is looked at.
    Looks,
}

/// A number that waits are known by.
pub(crate) type WaitNumber = u64;

/// One wait for the departure of a contender.
struct TableWait {
    nearness: usize,
    /// `None` for an onlooker.
    line: Option<WaitLine>,
    /// Whether its look was put off: another wait of its queue comes first, or the session waits for its lock.
    is_put_off: bool,
    /// When it is looked at next; `None` if it is told.
    due: Option<BootInstant>,
    /// Since when it may wait for the named lock; `None` once that was free and the contender there.
    named_lock: Option<BootInstant>,
    /// Whether it ends also once the contender seems to stay.
    only_if_dead: bool,
    tell: oneshot::Sender<WaitEnd>,
}

impl TableWait {
    fn token(&self) -> Option<FencingToken> {
        self.line.as_ref().map(|(_, token)| *token)
    }
}

struct ChangeWait {
    queue: (String, i64),
    due: Option<BootInstant>,
    tell: oneshot::Sender<WaitEnd>,
}

/// For whose named lock a session waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NextNamedLock {
    pub(crate) ticket: Option<Ticket>,
    /// When it may be another one, if nothing happens before.
    pub(crate) changes_at: Option<BootInstant>,
}

/// The waits over one connection.
pub(crate) struct WaitTable {
    /// The number of the connection; `None` while there is none.
    pub(crate) link: Option<u64>,
    pub(crate) telling: WakeState,
    /// Whether the session waits for named locks over it.
    has_named_locks: bool,
    /// How long a session listens before a new wait needs no look.
    settled_after: Duration,
    next: WaitNumber,
    departures: BTreeMap<(Ticket, WaitNumber), TableWait>,
    changes: HashMap<WaitNumber, ChangeWait>,
    /// Departures that were told and had no wait, the latest last.
    unawaited: VecDeque<Ticket>,
    /// The contender that a beat asked for last.
    last_awaited: Option<Ticket>,
    /// How soon the turns of the session's waits come.
    pub(crate) handoff_rate: HandoffRate,
    /// Whether the server was asked to tell the session no more if its turn is far, and has not answered.
    pub(crate) may_rest: bool,
    random: Random,
}

/// Adds up to a quarter.
fn spread(random: &mut Random, interval: Duration) -> Duration {
    let part = u32::try_from(random.below(1_024)).unwrap_or(0);
    interval + interval * JITTER_PERCENT / 100 * part / 1_024
}

/// How often a wait is looked at behind this many others.
fn interval(nearness: usize) -> Duration {
    let turns = u32::try_from(nearness).unwrap_or(u32::MAX).saturating_add(1);
    LOOK_MIN.saturating_mul(turns).min(LOOK_MAX)
}

impl WaitTable {
    pub(crate) fn new(seed: u64, settled_after: Duration) -> Self {
        Self {
            link: None,
            telling: WakeState::Looks,
            has_named_locks: false,
            settled_after,
            next: 0,
            departures: BTreeMap::new(),
            changes: HashMap::new(),
            unawaited: VecDeque::new(),
            last_awaited: None,
            handoff_rate: HandoffRate::default(),
            may_rest: false,
            random: Random::new(seed),
        }
    }

    /// Begins with a connection.
    pub(crate) fn attach(&mut self, link: u64, telling: WakeState, has_named_locks: bool) {
        self.end();
        self.link = Some(link);
        self.telling = telling;
        self.may_rest = false;
        self.has_named_locks = has_named_locks;
    }

    /// Ends all waits with their connection.
    pub(crate) fn end(&mut self) {
        self.link = None;
        self.unawaited.clear();
        let departures = std::mem::take(&mut self.departures).into_values().map(|wait| wait.tell);
        let changes = std::mem::take(&mut self.changes).into_values().map(|wait| wait.tell);
        departures.chain(changes).for_each(|tell| {
            let _ = tell.send(WaitEnd::ConnectionOver);
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.departures.is_empty() && self.changes.is_empty()
    }

    /// Notes a wait for a departure.
    pub(crate) fn depart(
        &mut self,
        ahead: Ticket,
        nearness: usize,
        line: Option<WaitLine>,
        now: BootInstant,
        tell: oneshot::Sender<WaitEnd>,
    ) -> WaitNumber {
        let number = self.number();
        if self.unawaited.contains(&ahead) {
            let _ = tell.send(WaitEnd::Departed);
            return number;
        }
        let due = match self.telling {
            WakeState::Told { since } if now.saturating_duration_since(since) >= self.settled_after => None,
            // It may have departed before the server told us of departures.
            WakeState::Told { .. } => Some(now),
            WakeState::Soon => None,
            WakeState::Looks => Some(now.saturating_add(spread(&mut self.random, interval(nearness)))),
        };
        // Where the session waits for a named lock already, another connection is no price any more.
        let waits_for_lock = self.next_named_lock(now).ticket.is_some();
        let named_lock = Some(if waits_for_lock { now } else { now.saturating_add(LOOK_MIN) });
        self.draw_near(nearness, line.as_ref());
        let wait = TableWait { nearness, line, is_put_off: false, due, named_lock, only_if_dead: false, tell };
        self.departures.insert((ahead, number), wait);
        number
    }

    /// Notes a wait for the departure of a contender that may be dead.
    pub(crate) fn depart_if_dead(
        &mut self,
        of: Ticket,
        now: BootInstant,
        tell: oneshot::Sender<WaitEnd>,
    ) -> WaitNumber {
        let number = self.depart(of, 0, None, now, tell);
        self.departures.entry((of, number)).and_modify(|wait| wait.only_if_dead = true);
        number
    }

    /// Notes that these contenders seem to live, or cannot be removed now.
    pub(crate) fn stay(&mut self, staying: &[Ticket]) {
        let waits = staying.iter().flat_map(|ticket| self.waits_for(*ticket));
        let waits: Vec<_> = waits.filter(|wait| self.departures[wait].only_if_dead).collect();
        for wait in waits.iter().filter_map(|wait| self.departures.remove(wait)) {
            let _ = wait.tell.send(WaitEnd::Stays);
        }
    }

    /// Those that stand ahead of this one in its queue are nearer than it is, though they were seen farther off before.
    fn draw_near(&mut self, nearness: usize, line: Option<&WaitLine>) {
        let Some((queue, token)) = line else { return };
        let is_ahead = |(other, its): &WaitLine| other == queue && its < token;
        for wait in self.departures.values_mut().filter(|wait| wait.line.as_ref().is_some_and(is_ahead)) {
            wait.nearness = wait.nearness.min(nearness.saturating_sub(1));
        }
    }

    /// Notes a wait for a change.
    pub(crate) fn change(
        &mut self,
        queue: (String, i64),
        now: BootInstant,
        tell: oneshot::Sender<WaitEnd>,
    ) -> WaitNumber {
        let number = self.number();
        // It begins before the look with which its caller compares, and so does the telling.
        let due = match self.telling {
            WakeState::Told { .. } | WakeState::Soon => None,
            WakeState::Looks => Some(now.saturating_add(spread(&mut self.random, CHANGE_LOOK))),
        };
        self.changes.insert(number, ChangeWait { queue, due, tell });
        number
    }

    fn number(&mut self) -> WaitNumber {
        self.next += 1;
        self.next
    }

    /// Forgets a wait for this contender, or for a change.
    pub(crate) fn forget(&mut self, ahead: Option<Ticket>, number: WaitNumber, now: BootInstant) {
        match ahead {
            Some(ahead) => {
                let line = self.departures.remove(&(ahead, number)).and_then(|wait| wait.line);
                line.iter().for_each(|line| self.over(line, now));
            }
            None => drop(self.changes.remove(&number)),
        }
    }

    fn over(&mut self, line: &WaitLine, now: BootInstant) {
        self.handoff_rate.ended(line, now);
        self.advance(line, now);
    }

    /// Looks at the wait that is the first of its queue now, where waits are looked at.
    fn advance(&mut self, (queue, _): &WaitLine, now: BootInstant) {
        let of_queue = |wait: &&mut TableWait| wait.line.as_ref().is_some_and(|(other, _)| other == queue);
        let first = self.departures.values_mut().filter(of_queue).min_by_key(|wait| wait.token());
        if let Some(due) = first.and_then(|wait| wait.due.as_mut()) {
            *due = now.min(*due);
        }
    }

    /// Notes that a contender has departed.
    pub(crate) fn departed(&mut self, ticket: Ticket, now: BootInstant) {
        let waits: Vec<_> = self.waits_for(ticket).collect();
        if waits.is_empty() {
            if self.unawaited.len() == UNAWAITED_MAX {
                self.unawaited.pop_front();
            }
            self.unawaited.push_back(ticket);
        }
        for wait in waits {
            let Some(wait) = self.departures.remove(&wait) else { continue };
            let _ = wait.tell.send(WaitEnd::Departed);
            wait.line.iter().for_each(|line| self.over(line, now));
        }
    }

    fn waits_for(&self, ticket: Ticket) -> impl Iterator<Item = (Ticket, WaitNumber)> {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        self.departures.range(all).map(|(wait, _)| *wait)
    }

    /// Notes that a queue or its value may have changed.
    pub(crate) fn changed(&mut self, name: &str, part: i64) {
        self.look_at(|wait| wait.queue.1 == part && wait.queue.0 == name);
    }

    fn look_at(&mut self, is_meant: impl Fn(&ChangeWait) -> bool) {
        for (_, wait) in self.changes.extract_if(|_, wait| is_meant(wait)) {
            let _ = wait.tell.send(WaitEnd::Look);
        }
    }

    /// Notes how waits are told from now on.
    pub(crate) fn tell_by(&mut self, telling: WakeState, now: BootInstant) {
        self.telling = telling;
        match telling {
            // What happened before was not told.
            WakeState::Told { .. } => {
                self.departures.values_mut().for_each(|wait| wait.due = Some(now));
                self.look_at(|_| true);
            }
            WakeState::Soon => {}
            WakeState::Looks => {
                for wait in self.departures.values_mut() {
                    let random = &mut self.random;
                    wait.due.get_or_insert_with(|| now.saturating_add(spread(random, interval(wait.nearness))));
                }
                self.look_at(|wait| wait.due.is_none());
            }
        }
    }
}

#[cfg(test)]
mod tests;
