//! The state of a local queue: which task has its key, and what follows when a turn ends, a task gives up or something
//! happens to the place. These are rules without I/O; their effects are applied outside the local queue's mutex.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Caller, Error, FencingToken, QueueView, Session};

use crate::contend::local_queue::line::TaskLine;
use crate::contend::{ArmedPlace, PendingPlace};
use crate::event::ReleaseReason;
use crate::handoff::Handoff;
use crate::hold::{EndingGrants, Grant};

/// How much one grant of the service is used for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct TurnBound {
    /// How many turns it has while other contenders wait.
    turns_max: NonZeroU32,
    /// For how long its turns begin while other contenders wait.
    time_max: Duration,
    /// For how long it is kept while no task uses it; zero if not at all.
    idle_max: Duration,
}

impl TurnBound {
    /// `None` if each call is a contender for itself.
    pub(crate) const fn of(handoff: Handoff) -> Option<Self> {
        match handoff {
            Handoff::Strict => None,
            Handoff::Local { turns_max, time_max } => Some(Self { turns_max, time_max, idle_max: Duration::ZERO }),
            Handoff::Sticky { idle_max } => {
                Some(Self { turns_max: NonZeroU32::MIN, time_max: Duration::MAX, idle_max })
            }
        }
    }

    pub(super) const fn is_kept(&self) -> bool {
        !self.idle_max.is_zero()
    }
}

/// What a task with the key begins with.
#[derive(Debug)]
pub(super) enum Start {
    /// A turn of this grant.
    Turn(Arc<SharedGrant>),
    /// A new place.
    Lead(PendingLeader),
}

/// What a local queue without a place leaves to the task that leads.
#[derive(Debug)]
pub(super) struct PendingLeader {
    /// A join that no task waits for.
    pub(super) pending: Option<Box<PendingPlace>>,
    /// Whether it has a place in the service's queue.
    pub(super) is_placed: bool,
    /// How many tasks had come to the line.
    pub(super) arrivals: u64,
}

/// What a local queue is in the service's queue, and which of its tasks may act.
#[derive(Debug)]
pub(super) struct QueueState {
    bound: TurnBound,
    /// The serial of the task that has the key; `None` if none has.
    key: Option<u64>,
    /// Whether that task holds; otherwise it leads, or was given the key and has not taken its turn yet.
    is_held: bool,
    last_serial: u64,
    pub(super) line: TaskLine,
    /// The place that was granted.
    standing: Option<GrantedPlace>,
    /// A join without a task that waits for it.
    pending: Option<Box<PendingPlace>>,
    /// Whether the leader has a place in the service's queue.
    pub(super) is_placed: bool,
    grants: u64,
    /// How many turns the grant has had.
    turns: u32,
    /// Whether other contenders may wait for the lock.
    others: bool,
    /// Whether it was asked to give the lock up.
    must_go: bool,
    ending: EndingGrants,
    is_watched: bool,
    /// Since when no task has used the place; of use while none has the key.
    idle_since: BootInstant,
}

/// The effects of a change, to be applied in this order when the local queue is not locked any more.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Places that are left, or were lost, by being dropped.
    pub(super) left: Option<GrantedPlace>,
    pub(super) withdrawn: Option<Box<PendingPlace>>,
    /// Wakes the task that was given the key.
    pub(super) next: Option<Waker>,
    /// Wakes those that have failed.
    pub(super) woken: Vec<Waker>,
    /// A grant that is to be watched from now on.
    pub(super) watched: Option<Arc<SharedGrant>>,
    /// What observers are told of a place that is left.
    pub(super) told: Option<(FencingToken, ReleaseReason)>,
}

/// What follows from the end of a turn, beside its effects.
#[derive(Debug)]
pub(super) enum TurnEnd {
    /// Nothing: it was over before.
    Before,
    /// The next task has the key, or the place is kept for one.
    Kept,
    /// The place is left.
    Left,
    /// The place is left and another one taken at once, for the first task in line; the key is kept for it.
    Rejoins(u64, Caller),
}

impl QueueState {
    pub(super) fn new(bound: TurnBound, ending: EndingGrants, now: BootInstant) -> Self {
        Self {
            bound,
            key: None,
            is_held: false,
            last_serial: 0,
            line: TaskLine::default(),
            standing: None,
            pending: None,
            is_placed: false,
            grants: 0,
            turns: 0,
            others: false,
            must_go: false,
            ending,
            is_watched: false,
            idle_since: now,
        }
    }

    /// Takes the key if no task has it and none waits; the place, if there is one, is taken by [`QueueState::take`].
    pub(super) fn take_key(&mut self) -> Option<u64> {
        if self.key.is_some() || !self.line.is_empty() {
            return None;
        }
        Some(self.new_key())
    }

    fn new_key(&mut self) -> u64 {
        self.last_serial += 1;
        self.is_held = false;
        self.key = Some(self.last_serial);
        self.last_serial
    }

    pub(super) fn has_key(&self, serial: u64) -> bool {
        self.key == Some(serial)
    }

    /// Returns what the task with the key begins with.
    pub(super) fn start(&mut self) -> Start {
        match self.grant() {
            Some(grant) => Start::Turn(grant.clone()),
            None => {
                let (is_placed, arrivals) = (self.is_placed, self.line.arrivals());
                Start::Lead(PendingLeader { pending: self.pending.take(), is_placed, arrivals })
            }
        }
    }

    /// Takes a turn of this grant; returns its number, or `None` if the grant is over.
    pub(super) fn take(&mut self, serial: u64, grant: u64) -> Option<u32> {
        if !self.is_of(grant) || !self.has_key(serial) {
            return None;
        }
        let turn = self.turns;
        self.turns = self.turns.checked_add(1).expect("a grant is left before its turns cannot be counted");
        self.is_held = true;
        Some(turn)
    }

    /// The number of the next grant.
    pub(super) fn next_grant(&mut self) -> u64 {
        self.grants += 1;
        self.grants
    }

    /// Notes the grant that the task with the key has led to; another place is there no more.
    pub(super) fn granted(&mut self, granted: GrantedPlace) {
        self.others = granted.grant.alone.is_none();
        (self.turns, self.must_go, self.is_watched) = (0, false, false);
        self.is_placed = false;
        self.standing = Some(granted);
    }

    fn grant(&self) -> Option<&Arc<SharedGrant>> {
        self.standing.as_ref().map(|standing| &standing.grant)
    }

    /// Ends a turn. The effects are written where they are applied: they are too large to be moved for each turn.
    pub(super) fn end(&mut self, serial: u64, is_lost: bool, now: BootInstant, effects: &mut Effects) -> TurnEnd {
        if !self.has_key(serial) || !self.is_held {
            return TurnEnd::Before;
        }
        let why = self.goes(now);
        let next = self.line.first_caller();
        let stays = why.is_none() && (next.is_some() || self.bound.is_kept());
        if self.standing.is_none() || stays && !is_lost {
            self.give_on(now, effects);
            return TurnEnd::Kept;
        }
        if !is_lost {
            effects.told = self.last_token().zip(why.or(Some(ReleaseReason::Idle)));
        }
        effects.left = self.standing.take();
        match next.filter(|_| !is_lost) {
            Some(caller) => TurnEnd::Rejoins(self.new_key(), caller),
            None => {
                self.pass_key(effects);
                TurnEnd::Left
            }
        }
    }

    /// Returns the token of the last turn.
    fn last_token(&self) -> Option<FencingToken> {
        FencingToken::new(self.grant()?.grant.token.as_u64(), self.turns.checked_sub(1)?)
    }

    /// Tells why no other turn is taken of this grant, if so.
    fn goes(&self, now: BootInstant) -> Option<ReleaseReason> {
        let held = self.grant()?;
        let TurnBound { turns_max, time_max, .. } = self.bound;
        let is_over = || self.turns >= turns_max.get() || now.saturating_duration_since(held.granted_at) >= time_max;
        if self.must_go {
            Some(ReleaseReason::Asked)
        } else if self.ending.has(held.number) {
            Some(ReleaseReason::EndsPlace)
        } else if self.turns == u32::MAX || self.others && is_over() {
            Some(ReleaseReason::Bound)
        } else {
            None
        }
    }

    /// Gives the key to the first task in line, if any.
    fn pass_key(&mut self, effects: &mut Effects) {
        let serial = self.new_key();
        match self.line.give_key(serial) {
            Some(waker) => effects.next = waker,
            None => self.key = None,
        }
    }

    /// Gives the key to the first task in line; if none waits, the place is kept or left, and a join withdrawn.
    fn give_on(&mut self, now: BootInstant, effects: &mut Effects) {
        self.pass_key(effects);
        if self.key.is_some() {
            return;
        }
        self.is_placed = false;
        effects.withdrawn = self.pending.take();
        match self.goes(now) {
            None if self.bound.is_kept() => {
                self.idle_since = now;
                effects.watched = self.watch();
            }
            why => self.leave(why.unwrap_or(ReleaseReason::Idle), effects),
        }
    }

    fn leave(&mut self, why: ReleaseReason, effects: &mut Effects) {
        effects.told = self.last_token().map(|token| (token, why));
        effects.left = self.standing.take();
    }

    /// Gives up the key of a task that goes away before its turn, with the join that it waited for.
    pub(super) fn give_up(&mut self, serial: u64, pending: Option<Box<PendingPlace>>, now: BootInstant) -> Effects {
        let mut effects = Effects::default();
        if self.has_key(serial) {
            self.pending = pending.or_else(|| self.pending.take());
            self.give_on(now, &mut effects);
        } else {
            effects.withdrawn = pending;
        }
        effects
    }

    /// Forgets a grant that is lost; the task with this key leads then.
    pub(super) fn drop_lost(&mut self, serial: u64, grant: u64) -> Effects {
        let mut effects = Effects::default();
        if self.has_key(serial) {
            effects.left = self.take_place(grant);
        }
        effects
    }

    fn take_place(&mut self, grant: u64) -> Option<GrantedPlace> {
        self.standing.take_if(|present| present.grant.number == grant)
    }

    /// Notes that the place of a grant is lost. A task that holds has lost its turn, and the first in line leads; one
    /// that was given the key leads itself.
    pub(super) fn lost(&mut self, grant: u64) -> Effects {
        let mut effects = Effects { left: self.take_place(grant), ..Effects::default() };
        if effects.left.is_some() && self.is_held {
            self.pass_key(&mut effects);
        }
        effects
    }

    /// Notes that other contenders wait; an idle place is left.
    pub(super) fn told_of_others(&mut self, grant: u64) -> Effects {
        self.others |= self.is_of(grant);
        self.leave_if_idle(grant, ReleaseReason::Queued)
    }

    /// Notes that the lock is to be given up after this turn; an idle place is left.
    pub(super) fn asked(&mut self, grant: u64) -> Effects {
        self.must_go |= self.is_of(grant);
        self.leave_if_idle(grant, ReleaseReason::Asked)
    }

    fn leave_if_idle(&mut self, grant: u64, why: ReleaseReason) -> Effects {
        let mut effects = Effects::default();
        if self.key.is_none() && self.is_of(grant) {
            self.leave(why, &mut effects);
        }
        effects
    }

    /// Leaves a place that has been idle for long enough; otherwise returns when to look again, if the grant is not
    /// over.
    pub(super) fn look_idle(&mut self, grant: u64, now: BootInstant) -> (Option<BootInstant>, Effects) {
        if !self.is_of(grant) {
            return (None, Effects::default());
        }
        let since = if self.key.is_none() { self.idle_since } else { now };
        let ends_at = since.saturating_add(self.bound.idle_max);
        if ends_at > now {
            return (Some(ends_at), Effects::default());
        }
        (None, self.leave_if_idle(grant, ReleaseReason::Idle))
    }

    fn is_of(&self, grant: u64) -> bool {
        self.grant().is_some_and(|present| present.number == grant)
    }

    /// Returns the grant that is to be watched from now on: it has outlived a turn, or a task waits behind one that
    /// holds.
    pub(super) fn watch(&mut self) -> Option<Arc<SharedGrant>> {
        let is_idle = self.key.is_none();
        if self.is_watched || self.line.is_empty() && !is_idle {
            return None;
        }
        let grant = self.grant()?.clone();
        self.is_watched = true;
        Some(grant)
    }

    /// Fails the tasks that came before this arrival.
    pub(super) fn fail_before(&mut self, arrival: u64, error: &Error) -> Effects {
        let mut effects = Effects::default();
        self.line.fail_before(arrival, error, &mut effects.woken);
        effects
    }

    /// Pretends that so many turns were taken of the grant.
    #[cfg(test)]
    pub(super) fn set_turns(&mut self, turns: u32) {
        self.turns = turns;
    }

    /// Whether it has a place in the service's queue.
    pub(super) const fn has_place(&self) -> bool {
        self.standing.is_some() || self.is_placed || self.pending.is_some()
    }
}

/// A grant of the service, which all of its turns share.
#[derive(Debug)]
pub(super) struct SharedGrant {
    /// Among all grants of the local queue.
    pub(super) number: u64,
    pub(super) grant: Grant,
    pub(super) session: Arc<dyn Session>,
    pub(super) granted_at: BootInstant,
    /// The queue at the join, if no other contender was in it.
    pub(super) alone: Option<QueueView>,
}

/// A place that was granted. It is dropped when the local queue is not locked any more.
#[derive(Debug)]
pub(super) struct GrantedPlace {
    pub(super) place: ArmedPlace,
    pub(super) grant: Arc<SharedGrant>,
}
