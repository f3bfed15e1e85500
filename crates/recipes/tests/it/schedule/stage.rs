//! The stage of every schedule: one service, two keepers, a clock that is moved by hand; and what befalls their
//! connections and places.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, BoxFuture, ErrorKind, Operation, Part, QueueName, Request, Result, SafeUntil, Session};
use lockkeeper_recipes::Keeper;
use lockkeeper_recipes::memory::{MemoryService, Testing};

use super::asks::{Ask, LOCK};
use super::clock::HandClock;
use super::truth::Truth;

/// Longer than every pause between two attempts, every session that is cut off, and a grant's time.
const LONG: Duration = Duration::from_secs(3600);

const CUT_SAFE_FOR: Duration = Duration::from_secs(10);

/// One thing that can happen to keepers and their places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// Time passes.
    Advance,
    Heal(usize),
    Resume,
    // Faults.
    Expire(usize),
    Cut(usize),
    Pause,
    LoseReply(Operation),
    /// An operator removes the contender at this position of this part.
    Remove(Part, usize),
}

pub(crate) struct Stage {
    pub(crate) clock: HandClock,
    onlooker: Arc<dyn Backend>,
    pub(crate) operator: Arc<dyn Session>,
    pub(crate) queue: QueueName,
    pub(crate) keepers: [Keeper; 2],
    testing: [Testing; 2],
    pub(crate) cut: [bool; 2],
    pub(crate) paused: bool,
    faults_max: usize,
    faults_left: usize,
    /// How many contenders an operator removed, and how many calls failed for that reason.
    removed: usize,
    refused: usize,
}

impl Stage {
    pub(crate) fn new(faults_max: usize, keepers: impl FnOnce(&MemoryService) -> [Keeper; 2]) -> Self {
        let clock = HandClock::new();
        let service = MemoryService::new(Arc::new(clock.clone()));
        let keepers = keepers(&service);
        let onlooker = service.client().0;
        Self {
            clock,
            operator: at_once(onlooker.session()).unwrap(),
            onlooker,
            queue: QueueName::new(LOCK).unwrap(),
            testing: keepers.each_ref().map(|keeper| keeper.testing().unwrap().clone()),
            keepers,
            cut: [false; 2],
            paused: false,
            faults_max,
            faults_left: faults_max,
            removed: 0,
            refused: 0,
        }
    }

    /// What connects all again.
    pub(crate) fn healing(&self) -> Vec<Event> {
        let heal = (0..self.cut.len()).filter(|&number| self.cut[number]).map(Event::Heal);
        heal.chain(self.paused.then_some(Event::Resume)).collect()
    }

    /// What can happen now without a fault.
    pub(crate) fn events(&self) -> Vec<Event> {
        let advance = (self.clock.has_sleepers() || self.cut.contains(&true)).then_some(Event::Advance);
        advance.into_iter().chain(self.healing()).collect()
    }

    /// The faults that can happen now, if there may be one more. One of a keeper that does not take part has no visible
    /// effect.
    pub(crate) fn faults(&self, takes_part: [bool; 2], pauses: bool, lost_replies: &[Operation]) -> Vec<Event> {
        let mut faults = Vec::new();
        if self.faults_left == 0 {
            return faults;
        }
        for number in (0..takes_part.len()).filter(|&number| takes_part[number]) {
            faults.push(Event::Expire(number));
            if !self.cut[number] {
                faults.push(Event::Cut(number));
            }
        }
        faults.extend(lost_replies.iter().map(|&operation| Event::LoseReply(operation)));
        if self.paused {
            return faults;
        }
        if pauses {
            faults.push(Event::Pause);
        }
        let truth = self.truth();
        for (part, there) in [(Part::Line, truth.line), (Part::Permits, truth.permits), (Part::Waiters, truth.waiters)]
        {
            faults.extend((0..there.len()).map(|position| Event::Remove(part, position)));
        }
        faults
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Advance => self.clock.advance(LONG),
            Event::Heal(number) => {
                self.cut[number] = false;
                self.testing[number].heal();
            }
            Event::Resume => {
                self.paused = false;
                self.testing[0].resume();
            }
            fault => {
                self.count_fault();
                self.inflict(fault);
            }
        }
    }

    pub(crate) const fn count_fault(&mut self) {
        self.faults_left = self.faults_left.saturating_sub(1);
    }

    fn inflict(&mut self, fault: Event) {
        match fault {
            Event::Expire(number) => self.testing[number].expire_session(),
            Event::Cut(number) => {
                self.cut[number] = true;
                let safe_until = self.clock.now().saturating_add(CUT_SAFE_FOR);
                self.testing[number].cut(SafeUntil::At(safe_until));
            }
            Event::Pause => {
                self.paused = true;
                self.testing[0].pause();
            }
            Event::LoseReply(operation) => self.testing[0].drop_next_reply(operation),
            Event::Remove(part, position) => self.remove(part, position),
            other => unreachable!("{other:?} is no fault"),
        }
    }

    /// Removes a contender by hand from the line, and breaks a permit or a waiter for some.
    fn remove(&mut self, part: Part, position: usize) {
        self.removed += 1;
        let truth = self.truth();
        if part == Part::Line {
            return self.testing[0].remove_contender(LOCK, &truth.line[position].id).unwrap();
        }
        let there = if part == Part::Waiters { &truth.waiters } else { &truth.permits };
        let request = Request::Break { token: there[position].token.unwrap() };
        let broken = self.operator.request(&self.queue.with_part(part), &there[position].id, request);
        assert!(at_once(broken).unwrap());
    }

    /// A refusal has a cause: the contender was removed, or a fault hit the hold.
    pub(crate) fn accept_refusal(&mut self, ask: Ask, kind: ErrorKind, history: &impl Debug) {
        match (ask, kind) {
            (Ask::Downgrade, _) => assert!(self.has_fault(), "{kind:?} without a fault: {history:?}"),
            (_, ErrorKind::Removed) => {
                self.refused += 1;
                assert!(self.refused <= self.removed, "it was not removed: {history:?}");
            }
            _ => panic!("{kind:?} after {history:?}"),
        }
    }

    /// Whether there may be a fault more.
    pub(crate) const fn may_fault(&self) -> bool {
        self.faults_left > 0
    }

    /// Whether there was a fault.
    pub(crate) const fn has_fault(&self) -> bool {
        self.faults_left < self.faults_max
    }

    pub(crate) fn all_connected(&self) -> bool {
        !self.paused && self.cut == [false; 2]
    }

    /// Shows the contenders in the service, without a change to them.
    pub(crate) fn truth(&self) -> Truth {
        Truth::of(at_once(self.onlooker.admin().inspect(&self.queue)).unwrap())
    }
}

/// Takes an answer that is ready.
pub(crate) fn at_once<T>(mut answer: BoxFuture<Result<T>>) -> Result<T> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the memory backend answers at once unless it is paused"),
    }
}
