//! The rules for which waits are looked at and when, and whether the first of them is far from its turn.

use std::collections::HashMap;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{FencingToken, QueueName, Ticket};

use crate::session::waits::handoff_rate::{self, ListenPause, WaitLine};
use crate::session::waits::wait_table::{
    LOOK_MAX, NextNamedLock, TableWait, WaitEnd, WaitNumber, WaitTable, WakeState, interval, spread,
};

/// For how long the look of one is put off that stands behind another wait of the session in its queue. Its turn comes
/// after that one's, and then it is looked at; until then a look would tell it nothing, and a thousand of them take all
/// of the connection's time.
const BEHIND_LOOK: Duration = Duration::from_secs(4);

const LOOKED_MAX: usize = 64;

/// How many contenders one beat asks for: the nearest …
const AWAITED_NEAREST: usize = 8;

/// … and others in turn, up to this many in all.
const AWAITED_MAX: usize = 64;

impl WaitTable {
    pub(crate) fn next_due(&self) -> Option<BootInstant> {
        let departures = self.departures.values().filter_map(|wait| wait.due);
        departures.chain(self.changes.values().filter_map(|wait| wait.due)).min()
    }

    /// Takes what is to be looked at now: the contenders that are due, and with them those that are so soon, in the
    /// order of their dues; their next look is set. Waits for changes that are due end.
    pub(crate) fn take_due(&mut self, now: BootInstant) -> Vec<Ticket> {
        self.look_at(|wait| wait.due.is_some_and(|due| due <= now));
        // One for whose named lock the session waits is looked at in its place: that would be free meanwhile.
        let awaited_lock = self.next_named_lock(now).ticket;
        self.end_far(now, awaited_lock);
        if !self.departures.values().any(|wait| wait.due.is_some_and(|due| due <= now)) {
            return Vec::new();
        }
        let ends_far = self.telling == WakeState::Looks;
        let is_due = |ticket: Ticket, wait: &TableWait| {
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
        let is_told = matches!(self.telling, WakeState::Told { .. });
        for ticket in &taken {
            self.set_due(*ticket, now, is_told);
        }
        taken
    }

    /// Ends the waits that are due and were not next in line, where nothing tells: they are to find out how near they
    /// are by now, since that says when they look next.
    fn end_far(&mut self, now: BootInstant, awaited_lock: Option<Ticket>) {
        if self.telling != WakeState::Looks {
            return;
        }
        awaited_lock.iter().for_each(|ticket| self.spare(*ticket, now));
        self.spare_behind(now);
        let is_far = |ticket: Ticket, wait: &TableWait| {
            wait.nearness > 0 && wait.due.is_some_and(|due| due <= now) && awaited_lock != Some(ticket)
        };
        let all = self.departures.iter();
        let far: Vec<_> = all.filter(|((ticket, _), wait)| is_far(*ticket, wait)).map(|(key, _)| *key).collect();
        for wait in far.iter().filter_map(|key| self.departures.remove(key)) {
            let _ = wait.tell.send(WaitEnd::Look);
        }
    }

    /// Puts off the look of the waiters for a named lock: it tells them of their turn sooner than a look would.
    /// Only once: the connection of one that was removed may stand, and keep its named lock.
    fn spare(&mut self, ticket: Ticket, now: BootInstant) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            if !wait.is_put_off && wait.due.is_some_and(|due| due <= now) {
                wait.due = Some(now.saturating_add(spread(&mut self.random, LOOK_MAX)));
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
        let is_behind = |(queue, token): &WaitLine| first.get(queue).is_some_and(|first| first < token);
        for wait in self.departures.values_mut() {
            let is_due = wait.nearness > 0 && wait.due.is_some_and(|due| due <= now);
            if is_due && wait.line.as_ref().is_some_and(is_behind) {
                wait.due = Some(now.saturating_add(spread(&mut self.random, BEHIND_LOOK)));
            }
        }
    }

    /// Notes that a look at these failed: they are looked at again.
    pub(crate) fn look_again(&mut self, tickets: &[Ticket], now: BootInstant) {
        tickets.iter().for_each(|ticket| self.set_due(*ticket, now, false));
    }

    fn set_due(&mut self, ticket: Ticket, now: BootInstant, is_told: bool) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            let next = now.saturating_add(spread(&mut self.random, interval(wait.nearness)));
            wait.due = (!is_told).then_some(next);
            wait.is_put_off = false;
        }
    }

    /// Returns the contenders that a beat asks for: the nearest, and others in turn.
    pub(crate) fn next_awaited(&mut self) -> Vec<Ticket> {
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
    pub(crate) fn next_named_lock(&self, now: BootInstant) -> NextNamedLock {
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
    pub(crate) fn opened(&mut self, ticket: Ticket, now: BootInstant) {
        let all = (ticket, WaitNumber::MIN)..=(ticket, WaitNumber::MAX);
        for (_, wait) in self.departures.range_mut(all) {
            wait.named_lock = None;
            wait.due = Some(now);
            // It is found out whether that contender is there, and not how many others are.
            wait.nearness = 0;
        }
    }

    /// Whether the server tells this session of departures, for all that is known.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self.telling, WakeState::Told { .. })
    }

    /// Whether the server has no reason to stop telling this session.
    pub(crate) const fn must_be_told(&self) -> bool {
        self.is_told() && !self.may_rest
    }

    /// Whether the queue of the waits moves so quickly that a session rests which is far from its turn.
    pub(crate) fn is_quick(&self, now: BootInstant) -> bool {
        self.handoff_rate.far(now).is_some()
    }

    /// Begins to count how many stand ahead of a wait; returns with how many of them the session may rest, if it may.
    pub(crate) fn count(&mut self, line: &WaitLine, now: BootInstant) -> Option<usize> {
        self.handoff_rate.count(line);
        let far = self.handoff_rate.far(now);
        self.may_rest = far.is_some();
        far
    }

    /// Notes whether the session rests now.
    pub(crate) const fn rests(&mut self, rests: bool) {
        self.may_rest = false;
        if rests {
            self.telling = WakeState::Soon;
        }
    }

    /// Returns the first of the waits if all are for one queue, and it may be far from its turn, and was not counted.
    pub(crate) fn far(&self) -> Option<WaitLine> {
        self.first_far().filter(|line| !self.handoff_rate.has_counted(line)).cloned()
    }

    /// The same if it was counted.
    pub(crate) fn counted_far(&self) -> Option<WaitLine> {
        self.first_far().filter(|line| self.handoff_rate.has_counted(line)).cloned()
    }

    fn first_far(&self) -> Option<&WaitLine> {
        let line = self.first()?;
        let first = self.departures.values().find(|wait| wait.line.as_ref() == Some(line))?;
        (first.nearness >= handoff_rate::FAR).then_some(line)
    }

    /// Whether there are waits, and none of them comes before this one.
    pub(crate) fn are_behind(&self, line: &WaitLine) -> bool {
        self.first().is_some_and(|first| first.0 == line.0 && first.1 >= line.1)
    }

    /// The first of the waits if all are for one queue.
    fn first(&self) -> Option<&WaitLine> {
        let is_of_one = |line: &&WaitLine| {
            self.departures.values().all(|wait| wait.line.as_ref().is_some_and(|other| other.0 == line.0))
        };
        let lines = self.departures.values().filter_map(|wait| wait.line.as_ref());
        lines.min_by_key(|line| line.1).filter(is_of_one).filter(|_| self.changes.is_empty())
    }

    /// Notes how many stood ahead of the first wait when that was asked; returns until when the session may rest.
    pub(crate) fn counted(&mut self, line: &WaitLine, ahead: usize, at: BootInstant) -> ListenPause {
        let nearness = |wait: &TableWait| (wait.line.as_ref() == Some(line)).then_some(wait.nearness);
        let seen = self.departures.values().find_map(nearness).unwrap_or(ahead);
        // At least as many departed ahead of those behind it.
        let departed = seen.saturating_sub(ahead);
        for wait in
            self.departures.values_mut().filter(|wait| wait.line.as_ref().is_some_and(|other| other.0 == line.0))
        {
            wait.nearness = wait.nearness.saturating_sub(departed);
        }
        self.handoff_rate.counted(ahead, at)
    }
}
