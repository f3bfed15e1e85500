//! The waits, and which is to be looked at when: rules of events and times, without a clock or a connection.

mod far;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, QueueName, Ticket};
use tokio::sync::oneshot;

use crate::session::waits::handoff_rate::HandoffRate;
use crate::session::waits::told::Wake;

/// How long after it began, and after each look, the wait for the nearest contender is looked at …
const LOOK_MIN: Duration = Duration::from_millis(50);

/// … and as much later for each contender between, since each hand-off takes about that long; at most this.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// For how long the look of one is put off that stands behind another wait of the session in its queue. Its turn comes
/// after that one's, and then it is looked at; until then a look would tell it nothing, and a thousand of them take all
/// of the connection's time.
const BEHIND_LOOK: Duration = Duration::from_secs(4);

/// How long after it began a wait for a change ends in a look where nothing tells of changes. A look shows the whole
/// queue: it costs more than that at one contender.
const CHANGE_LOOK: Duration = Duration::from_millis(200);

/// Looks are spread by this part of their interval, so that processes that began together do not look together.
const JITTER_PERCENT: u32 = 25;

/// How many contenders one look asks for.
const LOOKED_MAX: usize = 64;

/// How many contenders one beat asks for: the nearest …
const AWAITED_NEAREST: usize = 8;

/// … and others in turn, up to this many in all.
const AWAITED_MAX: usize = 64;

/// How many departures are remembered that no wait was there for: one that is told while the answer to a join is read
/// has no wait yet.
const UNAWAITED_MAX: usize = 1_024;

/// How waits are told now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Telling {
    /// The server tells this session since this moment.
    Told { since: BootInstant },
    /// The session is about to listen; what is waited for is looked at after that.
    Soon,
    /// Each wait is looked at.
    Looks,
}

/// A number that waits are known by.
pub(super) type WaitNumber = u64;

/// The queue of one that waits, and its token there.
pub(super) type Line = (QueueName, FencingToken);

/// One wait for the departure of a contender.
struct Departing {
    nearness: usize,
    /// `None` for an onlooker.
    line: Option<Line>,
    /// Whether its look was put off: another wait of its queue comes first, or the session waits for its lock.
    is_put_off: bool,
    /// When it is looked at next; `None` if it is told.
    due: Option<BootInstant>,
    /// Since when it may wait for the named lock; `None` once that was free and the contender there.
    named_lock: Option<BootInstant>,
    tell: oneshot::Sender<Wake>,
}

impl Departing {
    fn token(&self) -> Option<FencingToken> {
        self.line.as_ref().map(|(_, token)| *token)
    }
}

/// One wait for a change.
struct Changing {
    queue: (String, i64),
    due: Option<BootInstant>,
    tell: oneshot::Sender<Wake>,
}

/// For whose named lock a session waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NextNamedLock {
    pub(super) ticket: Option<Ticket>,
    /// When it may be another one, if nothing happens before.
    pub(super) changes_at: Option<BootInstant>,
}

/// The waits over one connection.
pub(super) struct WaitTable {
    /// The number of the connection; `None` while there is none.
    pub(super) link: Option<u64>,
    pub(super) telling: Telling,
    /// Whether the session waits for named locks over it.
    has_named_locks: bool,
    /// How long a session listens before a new wait needs no look.
    settled_after: Duration,
    next: WaitNumber,
    departures: BTreeMap<(Ticket, WaitNumber), Departing>,
    changes: HashMap<WaitNumber, Changing>,
    /// Departures that were told and had no wait, the latest last.
    unawaited: VecDeque<Ticket>,
    /// The contender that a beat asked for last.
    last_awaited: Option<Ticket>,
    /// How soon the turns of the session's waits come.
    pub(super) handoff_rate: HandoffRate,
    /// Whether the server was asked to tell the session no more if its turn is far, and has not answered.
    pub(super) may_rest: bool,
    random: Random,
}

/// A source of numbers that need be no secret, only unlike those of other processes.
struct Random(u64);

impl Random {
    /// Adds up to a quarter.
    fn spread(&mut self, interval: Duration) -> Duration {
        // The steps of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = u32::try_from((bits ^ (bits >> 31)) % 1_024).unwrap_or(0);
        interval + interval * JITTER_PERCENT / 100 * part / 1_024
    }
}

/// How often a wait is looked at behind this many others.
fn interval(nearness: usize) -> Duration {
    let turns = u32::try_from(nearness).unwrap_or(u32::MAX).saturating_add(1);
    LOOK_MIN.saturating_mul(turns).min(LOOK_MAX)
}

impl WaitTable {
    pub(super) fn new(seed: u64, settled_after: Duration) -> Self {
        Self {
            link: None,
            telling: Telling::Looks,
            has_named_locks: false,
            settled_after,
            next: 0,
            departures: BTreeMap::new(),
            changes: HashMap::new(),
            unawaited: VecDeque::new(),
            last_awaited: None,
            handoff_rate: HandoffRate::default(),
            may_rest: false,
            random: Random(seed),
        }
    }

    /// Begins with a connection.
    pub(super) fn attach(&mut self, link: u64, telling: Telling, has_named_locks: bool) {
        self.end();
        self.link = Some(link);
        self.telling = telling;
        self.may_rest = false;
        self.has_named_locks = has_named_locks;
    }

    /// Ends all waits with their connection.
    pub(super) fn end(&mut self) {
        self.link = None;
        self.unawaited.clear();
        let departures = std::mem::take(&mut self.departures).into_values().map(|wait| wait.tell);
        let changes = std::mem::take(&mut self.changes).into_values().map(|wait| wait.tell);
        departures.chain(changes).for_each(|tell| {
            let _ = tell.send(Wake::ConnectionOver);
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.departures.is_empty() && self.changes.is_empty()
    }

    /// Notes a wait for a departure.
    pub(super) fn depart(
        &mut self,
        ahead: Ticket,
        nearness: usize,
        line: Option<Line>,
        now: BootInstant,
        tell: oneshot::Sender<Wake>,
    ) -> WaitNumber {
        let number = self.number();
        if self.unawaited.contains(&ahead) {
            let _ = tell.send(Wake::Departed);
            return number;
        }
        let due = match self.telling {
            Telling::Told { since } if now.saturating_duration_since(since) >= self.settled_after => None,
            // It may have departed before the server told us of departures.
            Telling::Told { .. } => Some(now),
            Telling::Soon => None,
            Telling::Looks => Some(now.saturating_add(self.random.spread(interval(nearness)))),
        };
        // Where the session waits for a named lock already, another connection is no price any more.
        let waits_for_lock = self.next_named_lock(now).ticket.is_some();
        let named_lock = Some(if waits_for_lock { now } else { now.saturating_add(LOOK_MIN) });
        self.draw_near(nearness, line.as_ref());
        self.departures.insert((ahead, number), Departing { nearness, line, is_put_off: false, due, named_lock, tell });
        number
    }

    /// Those that stand ahead of this one in its queue are nearer than it is, though they were seen farther off before.
    fn draw_near(&mut self, nearness: usize, line: Option<&Line>) {
        let Some((queue, token)) = line else { return };
        let is_ahead = |(other, its): &Line| other == queue && its < token;
        for wait in self.departures.values_mut().filter(|wait| wait.line.as_ref().is_some_and(is_ahead)) {
            wait.nearness = wait.nearness.min(nearness.saturating_sub(1));
        }
    }

    /// Notes a wait for a change.
    pub(super) fn change(&mut self, queue: (String, i64), now: BootInstant, tell: oneshot::Sender<Wake>) -> WaitNumber {
        let number = self.number();
        // It begins before the look with which its caller compares, and so does the telling.
        let due = match self.telling {
            Telling::Told { .. } | Telling::Soon => None,
            Telling::Looks => Some(now.saturating_add(self.random.spread(CHANGE_LOOK))),
        };
        self.changes.insert(number, Changing { queue, due, tell });
        number
    }

    fn number(&mut self) -> WaitNumber {
        self.next += 1;
        self.next
    }

    /// Forgets a wait for this contender, or for a change.
    pub(super) fn forget(&mut self, ahead: Option<Ticket>, number: WaitNumber, now: BootInstant) {
        match ahead {
            Some(ahead) => {
                let line = self.departures.remove(&(ahead, number)).and_then(|wait| wait.line);
                line.iter().for_each(|line| self.over(line, now));
            }
            None => drop(self.changes.remove(&number)),
        }
    }

    /// Notes that a wait is over.
    fn over(&mut self, line: &Line, now: BootInstant) {
        self.handoff_rate.ended(line, now);
        self.advance(line, now);
    }

    /// Looks at the wait that is the first of its queue now, where waits are looked at.
    fn advance(&mut self, (queue, _): &Line, now: BootInstant) {
        let of_queue = |wait: &&mut Departing| wait.line.as_ref().is_some_and(|(other, _)| other == queue);
        let first = self.departures.values_mut().filter(of_queue).min_by_key(|wait| wait.token());
        if let Some(due) = first.and_then(|wait| wait.due.as_mut()) {
            *due = now.min(*due);
        }
    }

    /// Notes that a contender has departed.
    pub(super) fn departed(&mut self, ticket: Ticket, now: BootInstant) {
        let waits: Vec<_> = self.waits_for(ticket).collect();
        if waits.is_empty() {
            if self.unawaited.len() == UNAWAITED_MAX {
                self.unawaited.pop_front();
            }
            self.unawaited.push_back(ticket);
        }
        for wait in waits {
            let Some(wait) = self.departures.remove(&wait) else { continue };
            let _ = wait.tell.send(Wake::Departed);
            wait.line.iter().for_each(|line| self.over(line, now));
        }
    }

    fn waits_for(&self, ticket: Ticket) -> impl Iterator<Item = (Ticket, WaitNumber)> {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        self.departures.range(all).map(|(wait, _)| *wait)
    }

    /// Notes that a queue or its value may have changed.
    pub(super) fn changed(&mut self, name: &str, part: i64) {
        self.look_at(|wait| wait.queue.1 == part && wait.queue.0 == name);
    }

    /// Has those look that wait for a change.
    fn look_at(&mut self, is_meant: impl Fn(&Changing) -> bool) {
        for (_, wait) in self.changes.extract_if(|_, wait| is_meant(wait)) {
            let _ = wait.tell.send(Wake::Look);
        }
    }

    /// Notes how waits are told from now on.
    pub(super) fn tell_by(&mut self, telling: Telling, now: BootInstant) {
        self.telling = telling;
        match telling {
            // What happened before was not told.
            Telling::Told { .. } => {
                self.departures.values_mut().for_each(|wait| wait.due = Some(now));
                self.look_at(|_| true);
            }
            Telling::Soon => {}
            Telling::Looks => {
                for wait in self.departures.values_mut() {
                    let random = &mut self.random;
                    wait.due.get_or_insert_with(|| now.saturating_add(random.spread(interval(wait.nearness))));
                }
                self.look_at(|wait| wait.due.is_none());
            }
        }
    }

    /// When a look is due next.
    pub(super) fn next_due(&self) -> Option<BootInstant> {
        let departures = self.departures.values().filter_map(|wait| wait.due);
        departures.chain(self.changes.values().filter_map(|wait| wait.due)).min()
    }

    /// Takes what is to be looked at now: the contenders that are due, and with them those that are so soon, in the
    /// order of their dues; their next look is set. Waits for changes that are due end.
    pub(super) fn take_due(&mut self, now: BootInstant) -> Vec<Ticket> {
        self.look_at(|wait| wait.due.is_some_and(|due| due <= now));
        // One for whose named lock the session waits is looked at in its place: that would be free meanwhile.
        let awaited_lock = self.next_named_lock(now).ticket;
        self.end_far(now, awaited_lock);
        if !self.departures.values().any(|wait| wait.due.is_some_and(|due| due <= now)) {
            return Vec::new();
        }
        let ends_far = self.telling == Telling::Looks;
        let is_due = |ticket: Ticket, wait: &Departing| {
            let soon = now.saturating_add(interval(wait.nearness) / 2);
            let is_far = ends_far && wait.nearness > 0 && awaited_lock != Some(ticket);
            // The looks of those for the lock were put off on purpose.
            let until = if awaited_lock == Some(ticket) { now } else { soon };
            wait.due.filter(|due| *due <= until && !is_far)
        };
        let mut dues: Vec<_> =
            self.departures.iter().filter_map(|((ticket, _), wait)| Some((is_due(*ticket, wait)?, *ticket))).collect();
        dues.sort_unstable();
        let mut taken: Vec<Ticket> = Vec::with_capacity(dues.len().min(LOOKED_MAX));
        for (_, ticket) in dues {
            if taken.len() == LOOKED_MAX {
                break;
            }
            if !taken.contains(&ticket) {
                taken.push(ticket);
            }
        }
        let is_told = matches!(self.telling, Telling::Told { .. });
        for ticket in &taken {
            self.set_due(*ticket, now, is_told);
        }
        taken
    }

    /// Ends the waits that are due and were not next in line, where nothing tells: they are to find out how near they
    /// are by now, since that says when they look next.
    fn end_far(&mut self, now: BootInstant, awaited_lock: Option<Ticket>) {
        if self.telling != Telling::Looks {
            return;
        }
        awaited_lock.iter().for_each(|ticket| self.spare(*ticket, now));
        self.spare_behind(now);
        let is_far = |ticket: Ticket, wait: &Departing| {
            wait.nearness > 0 && wait.due.is_some_and(|due| due <= now) && awaited_lock != Some(ticket)
        };
        let all = self.departures.iter();
        let far: Vec<_> = all.filter(|((ticket, _), wait)| is_far(*ticket, wait)).map(|(key, _)| *key).collect();
        for wait in far.iter().filter_map(|key| self.departures.remove(key)) {
            let _ = wait.tell.send(Wake::Look);
        }
    }

    /// Puts off the look of those that wait for a named lock: it tells them of their turn sooner than a look would.
    /// Only once: the connection of one that was removed may stand, and keep its named lock.
    fn spare(&mut self, ticket: Ticket, now: BootInstant) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            if !wait.is_put_off && wait.due.is_some_and(|due| due <= now) {
                wait.due = Some(now.saturating_add(self.random.spread(LOOK_MAX)));
                wait.is_put_off = true;
            }
        }
    }

    /// Puts off the looks of those that stand behind another wait in their queue.
    fn spare_behind(&mut self, now: BootInstant) {
        let mut first: HashMap<QueueName, FencingToken> = HashMap::new();
        for (queue, token) in self.departures.values().filter_map(|wait| wait.line.as_ref()) {
            first.entry(queue.clone()).and_modify(|first| *first = (*token).min(*first)).or_insert(*token);
        }
        let is_behind = |(queue, token): &Line| first.get(queue).is_some_and(|first| first < token);
        for wait in self.departures.values_mut() {
            let is_due = wait.nearness > 0 && wait.due.is_some_and(|due| due <= now);
            if is_due && wait.line.as_ref().is_some_and(is_behind) {
                wait.due = Some(now.saturating_add(self.random.spread(BEHIND_LOOK)));
            }
        }
    }

    /// Notes that a look at these failed: they are looked at again.
    pub(super) fn look_again(&mut self, tickets: &[Ticket], now: BootInstant) {
        tickets.iter().for_each(|ticket| self.set_due(*ticket, now, false));
    }

    fn set_due(&mut self, ticket: Ticket, now: BootInstant, is_told: bool) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            let next = now.saturating_add(self.random.spread(interval(wait.nearness)));
            wait.due = (!is_told).then_some(next);
            wait.is_put_off = false;
        }
    }

    /// Returns the contenders that a beat asks for: the nearest, and others in turn.
    pub(super) fn next_awaited(&mut self) -> Vec<Ticket> {
        let mut by_nearness: Vec<_> =
            self.departures.iter().map(|((ticket, _), wait)| (wait.nearness, *ticket)).collect();
        by_nearness.sort_unstable();
        let mut awaited: Vec<Ticket> = Vec::new();
        for (_, ticket) in by_nearness {
            if awaited.len() < AWAITED_NEAREST && !awaited.contains(&ticket) {
                awaited.push(ticket);
            }
        }
        let tickets = self.departures.keys().map(|(ticket, _)| *ticket);
        let last = self.last_awaited;
        let (before, behind): (Vec<_>, Vec<_>) = tickets.partition(|ticket| last.is_some_and(|last| *ticket <= last));
        for ticket in behind.into_iter().chain(before) {
            if awaited.len() == AWAITED_MAX {
                break;
            }
            if !awaited.contains(&ticket) {
                awaited.push(ticket);
                self.last_awaited = Some(ticket);
            }
        }
        awaited
    }

    /// Returns the contender for whose named lock the session waits now: that of the wait which is nearest its turn,
    /// among those that have waited for a little and whose named lock was not free for nothing.
    pub(super) fn next_named_lock(&self, now: BootInstant) -> NextNamedLock {
        if !self.has_named_locks {
            return NextNamedLock { ticket: None, changes_at: None };
        }
        let awaited =
            || self.departures.iter().filter_map(|((ticket, _), wait)| Some((wait.named_lock?, wait, *ticket)));
        let nearest = awaited().filter(|(since, ..)| *since <= now);
        let nearest = nearest.min_by_key(|(_, wait, ticket)| (wait.nearness, wait.token(), *ticket));
        let changes_at = awaited().map(|(since, ..)| since).filter(|since| *since > now).min();
        NextNamedLock { ticket: nearest.map(|(.., ticket)| ticket), changes_at }
    }

    /// Notes that the named lock of a contender was free: the contender is looked at now, and if it is there after all,
    /// by looks alone.
    pub(super) fn opened(&mut self, ticket: Ticket, now: BootInstant) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            wait.named_lock = None;
            wait.due = Some(now);
            // It is found out whether that contender is there, and not how many others are.
            wait.nearness = 0;
        }
    }
}

#[cfg(test)]
mod tests;
