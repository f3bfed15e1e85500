//! Three contenders, two keepers, one lock, and all events that can happen to them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    Backend, BoxFuture, ContenderId, Entry, ErrorKind, Expected, FencingToken, Mode, Operation, Owner, Part, QueueName,
    Request, Result, SafeUntil, Session, Ticket,
};
use lockkeeper_recipes::Keeper;
use lockkeeper_recipes::memory::{MemoryService, Testing};

use super::asks::{Ask, Asking, COUNTER, Held, LOCK};
use super::clock::HandClock;
use super::flag::{Flag, LastJoined};
use super::truth::Truth;

/// Contenders 0 and 2 share a keeper, and with it a session.
pub(crate) const KEEPER_OF: [usize; 3] = [0, 1, 0];

/// Longer than every pause between two attempts, and than every session that is cut off.
const LONG: Duration = Duration::from_secs(3600);

const CUT_SAFE_FOR: Duration = Duration::from_secs(10);

/// How many permits the counter allows at first.
const COUNTED: i32 = 2;

/// The size of the schedules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    /// What each contender may ask for.
    pub(crate) asks: [&'static [Ask]; 3],
    /// How many actions there are before all connections heal.
    pub(crate) depth: usize,
    /// How many of them may be faults.
    pub(crate) faults_max: usize,
    /// The requests whose reply may be lost.
    pub(crate) lost_replies: &'static [Operation],
    /// Whether the service may stop for a while.
    pub(crate) pauses: bool,
    /// Whether a foreign client may take a permit without waiting for its turn.
    pub(crate) intrudes: bool,
    /// What the counter may be set to.
    pub(crate) counts: &'static [i32],
    /// The bound that is noted from the beginning.
    pub(crate) noted: Option<u32>,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// A contender asks and is polled for the first time.
    Start(usize, Ask),
    /// A contender that was woken is polled.
    Poll(usize),
    /// A contender's future is dropped.
    Cancel(usize),
    /// A contender drops its guard, or one of its permits.
    Release(usize),
    /// A writer downgrades to a reader, and is polled for the first time.
    Downgrade(usize),
    /// Time passes.
    Advance,
    Heal(usize),
    Resume,
    /// A foreign client takes a permit.
    Intrude,
    /// It gives the permit back.
    Retreat,
    /// A client sets the counter.
    Count(i32),
    // Faults.
    Expire(usize),
    Cut(usize),
    Pause,
    LoseReply(Operation),
    /// An operator removes the contender at this position of this part.
    Remove(Part, usize),
}

pub(crate) enum Contender {
    Idle,
    Asking {
        ask: Ask,
        future: Asking,
        woken: Arc<Flag>,
        /// Whether it was woken before the connection was cut, so that its next answer had arrived before.
        told_before_cut: bool,
        /// Its place, once known.
        joined: Option<ContenderId>,
    },
    Holding(Ask, Held),
}

pub(crate) struct Side {
    keeper: Keeper,
    testing: Testing,
    pub(crate) cut: bool,
}

pub(crate) struct World {
    menu: Menu,
    pub(crate) clock: HandClock,
    onlooker: Arc<dyn Backend>,
    operator: Arc<dyn Session>,
    queue: QueueName,
    pub(crate) sides: [Side; 2],
    pub(crate) contenders: [Contender; 3],
    /// The place in which the contender that was polled last has joined.
    joined: Arc<LastJoined>,
    intruder: Option<Ticket>,
    pub(crate) counted: i32,
    pub(crate) paused: bool,
    faults_left: usize,
    /// How many contenders an operator removed, and how many calls failed for that reason.
    removed: usize,
    refused: usize,
    last_token: Option<FencingToken>,
    last_exclusive_token: Option<FencingToken>,
    pub(crate) history: Vec<Action>,
}

impl World {
    pub(crate) fn new(menu: Menu) -> Self {
        let clock = HandClock::new();
        let service = MemoryService::new(Arc::new(clock.clone()));
        let joined = Arc::new(LastJoined::default());
        let side = || {
            let keeper = service.keeper_builder().observer(joined.clone()).build();
            let testing = keeper.testing().unwrap().clone();
            Side { keeper, testing, cut: false }
        };
        let sides = [side(), side()];
        let onlooker = service.client().0;
        let operator = at_once(onlooker.session()).unwrap();
        let mut world = Self {
            menu,
            clock,
            onlooker,
            operator,
            queue: QueueName::new(LOCK).unwrap(),
            sides,
            contenders: [Contender::Idle, Contender::Idle, Contender::Idle],
            joined,
            intruder: None,
            counted: 0,
            paused: false,
            faults_left: menu.faults_max,
            removed: 0,
            refused: 0,
            last_token: None,
            last_exclusive_token: None,
            history: Vec::new(),
        };
        world.count(COUNTED);
        if let Some(bound) = menu.noted {
            let text: Arc<[u8]> = bound.to_string().into_bytes().into();
            at_once(world.operator.set_value(&world.queue.with_part(Part::Permits), Expected::Absent, Some(text)))
                .unwrap();
        }
        world
    }

    /// Returns all actions that are possible now.
    pub(crate) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, contender) in self.contenders.iter().enumerate() {
            match contender {
                // Contenders 0 and 2 are alike, so 0 comes first when both are idle.
                Contender::Idle if number == 2 && matches!(self.contenders[0], Contender::Idle) => {}
                Contender::Idle => actions.extend(self.menu.asks[number].iter().map(|&ask| Action::Start(number, ask))),
                Contender::Asking { woken, .. } => {
                    if woken.is_set() {
                        actions.push(Action::Poll(number));
                    }
                    actions.push(Action::Cancel(number));
                }
                Contender::Holding(_, held) => {
                    actions.push(Action::Release(number));
                    if matches!(held, Held::Write(_)) {
                        actions.push(Action::Downgrade(number));
                    }
                }
            }
        }
        if self.clock.has_sleepers() || self.sides.iter().any(|side| side.cut) {
            actions.push(Action::Advance);
        }
        let cut = (0..self.sides.len()).filter(|&number| self.sides[number].cut);
        actions.extend(cut.map(Action::Heal));
        if self.paused {
            actions.push(Action::Resume);
        } else {
            self.add_strangers(&mut actions);
        }
        if self.faults_left > 0 {
            self.add_faults(&mut actions);
        }
        actions
    }

    fn add_strangers(&self, actions: &mut Vec<Action>) {
        match self.intruder {
            Some(_) => actions.push(Action::Retreat),
            None if self.menu.intrudes => actions.push(Action::Intrude),
            None => {}
        }
        actions
            .extend(self.menu.counts.iter().filter(|&&count| count != self.counted).map(|&count| Action::Count(count)));
    }

    fn add_faults(&self, actions: &mut Vec<Action>) {
        for (number, side) in self.sides.iter().enumerate() {
            let present =
                |(contender, &keeper): (&Contender, &usize)| keeper == number && !matches!(contender, Contender::Idle);
            // A fault of a keeper that does not take part has no visible effect.
            if !self.contenders.iter().zip(&KEEPER_OF).any(present) {
                continue;
            }
            actions.push(Action::Expire(number));
            if !side.cut {
                actions.push(Action::Cut(number));
            }
        }
        if !self.paused && self.menu.pauses {
            actions.push(Action::Pause);
        }
        actions.extend(self.menu.lost_replies.iter().map(|&operation| Action::LoseReply(operation)));
        if !self.paused {
            let truth = self.truth();
            for (part, there) in
                [(Part::Line, truth.line), (Part::Permits, truth.permits), (Part::Waiters, truth.waiters)]
            {
                actions.extend((0..there.len()).map(|position| Action::Remove(part, position)));
            }
        }
    }

    /// Performs an action, and checks what must be true after it, unless an earlier run has.
    pub(crate) fn act(&mut self, action: Action, is_repeated: bool) {
        self.repeat(action);
        if !is_repeated {
            self.check();
        }
    }

    /// As above, for the first time.
    pub(crate) fn perform(&mut self, action: Action) {
        self.act(action, false);
    }

    fn repeat(&mut self, action: Action) {
        self.history.push(action);
        match action {
            Action::Start(number, ask) => {
                let future = ask.of(&self.sides[KEEPER_OF[number]].keeper);
                self.ask(number, ask, future);
            }
            Action::Downgrade(number) => match std::mem::replace(&mut self.contenders[number], Contender::Idle) {
                Contender::Holding(_, held) => self.ask(number, Ask::Downgrade, held.downgrade()),
                _ => unreachable!("only who holds is enabled to downgrade"),
            },
            Action::Poll(number) => self.poll(number),
            Action::Cancel(number) => self.contenders[number] = Contender::Idle,
            Action::Release(number) => self.release(number),
            Action::Advance => self.clock.advance(LONG),
            Action::Heal(number) => {
                self.sides[number].cut = false;
                self.sides[number].testing.heal();
            }
            Action::Resume => {
                self.paused = false;
                self.sides[0].testing.resume();
            }
            Action::Intrude => self.intrude(),
            Action::Retreat => {
                let ticket = self.intruder.take().expect("it is there");
                drop(self.operator.withdraw(&self.queue.with_part(Part::Permits), ticket));
            }
            Action::Count(count) => self.count(count),
            fault => {
                self.faults_left = self.faults_left.saturating_sub(1);
                self.inflict(fault);
            }
        }
    }

    fn release(&mut self, number: usize) {
        let woken_before = self.woken();
        if let Contender::Holding(ask, held) = std::mem::replace(&mut self.contenders[number], Contender::Idle)
            && let Some(rest) = held.release_one()
        {
            self.contenders[number] = Contender::Holding(ask, rest);
        }
        self.check_wake_ups(woken_before);
    }

    fn intrude(&mut self) {
        let ticket = Ticket::mint().unwrap();
        let entry = Entry::new(ticket, Mode::Permit, Arc::new(Owner::new("", 0, "")));
        // Its reply may be the one that is lost; it takes effect all the same.
        let _ = at_once(self.operator.enqueue_one(&self.queue.with_part(Part::Permits), entry));
        self.intruder = Some(ticket);
    }

    fn count(&mut self, count: i32) {
        self.counted = count;
        let bytes: Arc<[u8]> = Arc::new(count.to_be_bytes());
        // As above.
        let _ = at_once(self.operator.set_value(&QueueName::new(COUNTER).unwrap(), Expected::Any, Some(bytes)));
    }

    fn inflict(&mut self, fault: Action) {
        match fault {
            Action::Expire(number) => self.sides[number].testing.expire_session(),
            Action::Cut(number) => {
                self.sides[number].cut = true;
                for (contender, keeper) in self.contenders.iter_mut().zip(KEEPER_OF) {
                    if let Contender::Asking { woken, told_before_cut, .. } = contender
                        && keeper == number
                    {
                        *told_before_cut = woken.is_set();
                    }
                }
                let safe_until = self.clock.now().saturating_add(CUT_SAFE_FOR);
                self.sides[number].testing.cut(SafeUntil::At(safe_until));
            }
            Action::Pause => {
                self.paused = true;
                self.sides[0].testing.pause();
            }
            Action::LoseReply(operation) => self.sides[0].testing.drop_next_reply(operation),
            Action::Remove(part, position) => self.remove(part, position),
            other => unreachable!("{other:?} is no fault"),
        }
    }

    /// Removes a contender by hand from the line, and breaks a permit or a waiter for some.
    fn remove(&mut self, part: Part, position: usize) {
        self.removed += 1;
        let truth = self.truth();
        if part == Part::Line {
            return self.sides[0].testing.remove_contender(LOCK, &truth.line[position].id).unwrap();
        }
        let there = if part == Part::Waiters { &truth.waiters } else { &truth.permits };
        let request = Request::Break { token: there[position].token.unwrap() };
        let broken = self.operator.request(&self.queue.with_part(part), &there[position].id, request);
        assert!(at_once(broken).unwrap());
    }

    fn ask(&mut self, number: usize, ask: Ask, future: Asking) {
        let woken = Arc::default();
        self.contenders[number] = Contender::Asking { ask, future, woken, told_before_cut: false, joined: None };
        self.poll(number);
    }

    fn poll(&mut self, number: usize) {
        let Contender::Asking { ask, future, woken, told_before_cut, joined } = &mut self.contenders[number] else {
            unreachable!("only those who ask are polled");
        };
        woken.take();
        let (ask, was_told) = (*ask, std::mem::take(told_before_cut));
        let waker = Waker::from(woken.clone());
        self.joined.replace(None);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if let Some(now_at) = self.joined.replace(None) {
            *joined = Some(now_at);
        }
        match polled {
            Poll::Pending => {}
            Poll::Ready(Ok(held)) => {
                let joined = joined.take();
                self.grant(number, ask, held, joined, was_told);
            }
            Poll::Ready(Err(error)) => {
                self.contenders[number] = Contender::Idle;
                self.accept_refusal(ask, error.kind());
            }
        }
    }

    /// A refusal has a cause: the contender was removed, another one holds by another bound, or a fault hit the hold.
    fn accept_refusal(&mut self, ask: Ask, kind: ErrorKind) {
        let history = &self.history;
        match (ask, kind) {
            (Ask::Downgrade, _) => {
                assert!(self.faults_left < self.menu.faults_max, "{kind:?} without a fault: {history:?}");
            }
            (Ask::Permits(_, ours), ErrorKind::BoundMismatch) => {
                let is_other = |ask: &Ask| matches!(ask, Ask::Permits(_, bound) if *bound != ours);
                assert!(self.menu.asks.iter().copied().flatten().any(is_other), "all say the same: {history:?}");
            }
            (_, ErrorKind::Removed) => {
                self.refused += 1;
                assert!(self.refused <= self.removed, "it was not removed: {history:?}");
            }
            _ => panic!("{kind:?} after {history:?}"),
        }
    }

    fn grant(&mut self, number: usize, ask: Ask, held: Held, joined: Option<ContenderId>, was_told: bool) {
        let history = &self.history;
        let side = &self.sides[KEEPER_OF[number]];
        assert!(was_told || !side.cut, "granted over a connection that is cut: {history:?}");
        for hold in held.holds() {
            let token = Some(hold.fencing_token());
            assert!(hold.is_held(), "granted what is lost already: {history:?}");
            match ask {
                Ask::Downgrade => assert_eq!(token, self.last_exclusive_token, "not the writer's token: {history:?}"),
                Ask::Read => assert!(token > self.last_exclusive_token, "tokens do not grow: {history:?}"),
                _ => assert!(token > self.last_token, "tokens do not grow: {history:?}"),
            }
            self.last_token = self.last_token.max(token);
            if matches!(ask, Ask::Mutex | Ask::Write) {
                self.last_exclusive_token = token;
            }
        }
        let truth = self.truth();
        let has_passed = |joined: &ContenderId| truth.waiters.iter().any(|other| other.id < *joined);
        assert!(!joined.is_some_and(|joined| has_passed(&joined)), "not the first waiter: {history:?}");
        self.check_permits_at_grant(ask, &held, &truth);
        self.contenders[number] = Contender::Holding(ask, held);
    }

    /// Shows the contenders in the service, without a change to them.
    pub(crate) fn truth(&self) -> Truth {
        Truth::of(at_once(self.onlooker.inspect(&self.queue)).unwrap())
    }

    /// Returns which contenders are woken and not yet polled.
    pub(crate) fn woken(&self) -> [bool; 3] {
        std::array::from_fn(|number| match &self.contenders[number] {
            Contender::Asking { woken, .. } => woken.is_set(),
            _ => false,
        })
    }

    pub(crate) fn has_intruder(&self) -> bool {
        self.intruder.is_some()
    }
}

/// Takes an answer that is ready.
pub(crate) fn at_once<T>(mut answer: BoxFuture<Result<T>>) -> Result<T> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the memory backend answers at once unless it is paused"),
    }
}
