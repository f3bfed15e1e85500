//! Three contenders, two keepers, one lock, and all events that can happen to them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockkeeper_conformance::schedules::Novelty;
use lockkeeper_core::{
    ContenderId, Entry, ErrorKind, Expected, FencingToken, Mode, Operation, Owner, Part, QueueName, Ticket,
};

use super::asks::{Ask, Asking, COUNTER, Held};
use super::flag::{Flag, LastJoined};
use super::stage::{Event, Stage, at_once};

/// Contenders 0 and 2 share a keeper, and with it a session.
pub(crate) const KEEPER_OF: [usize; 3] = [0, 1, 0];

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
    /// A foreign client takes a permit.
    Intrude,
    /// It gives the permit back.
    Retreat,
    /// A client sets the counter.
    Count(i32),
    Happen(Event),
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

pub(crate) struct World {
    menu: Menu,
    pub(crate) stage: Stage,
    pub(crate) contenders: [Contender; 3],
    /// The place in which the contender that was polled last has joined.
    joined: Arc<LastJoined>,
    intruder: Option<Ticket>,
    pub(crate) counted: i32,
    last_token: Option<FencingToken>,
    last_exclusive_token: Option<FencingToken>,
    pub(crate) history: Vec<Action>,
}

impl World {
    pub(crate) fn new(menu: Menu) -> Self {
        let joined = Arc::new(LastJoined::default());
        let stage = Stage::new(menu.faults_max, |service| {
            [(); 2].map(|()| service.keeper_builder().observer(joined.clone()).build())
        });
        let mut world = Self {
            menu,
            stage,
            contenders: [Contender::Idle, Contender::Idle, Contender::Idle],
            joined,
            intruder: None,
            counted: 0,
            last_token: None,
            last_exclusive_token: None,
            history: Vec::new(),
        };
        world.count(COUNTED);
        if let Some(bound) = menu.noted {
            let text: Arc<[u8]> = bound.to_string().into_bytes().into();
            let permits = world.stage.queue.with_part(Part::Permits);
            at_once(world.stage.operator.values().set(&permits, Expected::Absent, Some(text))).unwrap();
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
        if !self.stage.paused {
            self.add_strangers(&mut actions);
        }
        let takes_part = [0, 1].map(|number| {
            let is_there = |at: usize| KEEPER_OF[at] == number && !matches!(self.contenders[at], Contender::Idle);
            (0..self.contenders.len()).any(is_there)
        });
        let faults = self.stage.faults(takes_part, self.menu.pauses, self.menu.lost_replies);
        actions.extend(self.stage.events().into_iter().chain(faults).map(Action::Happen));
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

    /// Performs an action, and checks what must be true after it, unless an earlier run has.
    pub(crate) fn act(&mut self, action: Action, novelty: Novelty) {
        self.repeat(action);
        if novelty == Novelty::New {
            self.check();
        }
    }

    /// As above, for the first time.
    pub(crate) fn perform(&mut self, action: Action) {
        self.act(action, Novelty::New);
    }

    fn repeat(&mut self, action: Action) {
        self.history.push(action);
        match action {
            Action::Start(number, ask) => {
                let future = ask.of(&self.stage.keepers[KEEPER_OF[number]]);
                self.ask(number, ask, future);
            }
            Action::Downgrade(number) => match std::mem::replace(&mut self.contenders[number], Contender::Idle) {
                Contender::Holding(_, held) => self.ask(number, Ask::Downgrade, held.downgrade()),
                _ => unreachable!("only who holds is enabled to downgrade"),
            },
            Action::Poll(number) => self.poll(number),
            Action::Cancel(number) => self.contenders[number] = Contender::Idle,
            Action::Release(number) => self.release(number),
            Action::Intrude => self.intrude(),
            Action::Retreat => {
                let ticket = self.intruder.take().expect("it is there");
                drop(self.stage.operator.withdraw(&self.stage.queue.with_part(Part::Permits), ticket));
            }
            Action::Count(count) => self.count(count),
            Action::Happen(event) => {
                if let Event::Cut(keeper) = event {
                    self.note_told(keeper);
                }
                self.stage.happen(event);
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
        let _ = at_once(self.stage.operator.enqueue_one(&self.stage.queue.with_part(Part::Permits), entry));
        self.intruder = Some(ticket);
    }

    fn count(&mut self, count: i32) {
        self.counted = count;
        let bytes: Arc<[u8]> = Arc::new(count.to_be_bytes());
        // As above.
        let _ =
            at_once(self.stage.operator.values().set(&QueueName::new(COUNTER).unwrap(), Expected::Any, Some(bytes)));
    }

    /// Notes who was told something over a connection before it is cut.
    fn note_told(&mut self, keeper: usize) {
        for (contender, of) in self.contenders.iter_mut().zip(KEEPER_OF) {
            if let Contender::Asking { woken, told_before_cut, .. } = contender
                && of == keeper
            {
                *told_before_cut = woken.is_set();
            }
        }
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

    /// A refusal has a cause: besides those that befall a place, another one may hold by another bound.
    fn accept_refusal(&mut self, ask: Ask, kind: ErrorKind) {
        match (ask, kind) {
            (Ask::Permits(_, ours), ErrorKind::BoundMismatch) => {
                let is_other = |ask: &Ask| matches!(ask, Ask::Permits(_, bound) if *bound != ours);
                assert!(self.menu.asks.iter().copied().flatten().any(is_other), "all say the same: {:?}", self.history);
            }
            _ => self.stage.accept_refusal(ask, kind, &self.history),
        }
    }

    fn grant(&mut self, number: usize, ask: Ask, held: Held, joined: Option<ContenderId>, was_told: bool) {
        let history = &self.history;
        assert!(was_told || !self.stage.cut[KEEPER_OF[number]], "granted over a connection that is cut: {history:?}");
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
        let truth = self.stage.truth();
        let has_passed = |joined: &ContenderId| truth.waiters.iter().any(|other| other.id < *joined);
        assert!(!joined.is_some_and(|joined| has_passed(&joined)), "not the first waiter: {history:?}");
        self.check_permits_at_grant(ask, &held, &truth);
        self.contenders[number] = Contender::Holding(ask, held);
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
