//! Three tasks of one seat, a rival of another keeper, one lock, and all events that can happen to them.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{
    Backend, BoxFuture, ContenderId, ErrorKind, FencingToken, Operation, QueueName, Request, Revocation, SafeUntil,
    Session,
};
use lockkeeper_recipes::memory::{MemoryService, Testing};
use lockkeeper_recipes::{Attendant, Handoff, Keeper};

use crate::schedule::asks::{Ask, Asking, Held, LOCK};
use crate::schedule::clock::HandClock;
use crate::schedule::flag::{Flag, LastJoined};
use crate::schedule::truth::Truth;
use crate::schedule::world::at_once;

/// The rival's number; the tasks of the seat come before it.
pub(crate) const RIVAL: usize = 3;

/// Longer than every pause between two attempts, every session that is cut off, and a grant's time.
const LONG: Duration = Duration::from_secs(3600);

const CUT_SAFE_FOR: Duration = Duration::from_secs(10);

/// The size of the schedules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    /// What the tasks of the seat ask for.
    pub(crate) ask: Ask,
    pub(crate) turns_max: u32,
    /// Whether idle places are kept; then a grant is for one turn while others wait.
    pub(crate) is_sticky: bool,
    /// How many actions there are before all connections heal.
    pub(crate) depth: usize,
    /// How many of them may be faults.
    pub(crate) faults_max: usize,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    Start(usize),
    /// A task that was woken is polled.
    Poll(usize),
    Cancel(usize),
    Release(usize),
    /// A writer downgrades to a reader, and is polled for the first time.
    Downgrade(usize),
    /// A watch that was woken is polled.
    Watch(usize),
    Advance,
    Heal(usize),
    Resume,
    // Faults.
    Expire(usize),
    Cut(usize),
    Pause,
    LoseReply,
    /// An operator removes the contender at this position.
    Remove(usize),
    /// A client asks the contender at this position to give the lock up.
    Ask(usize),
}

pub(crate) enum Task {
    Idle,
    Asking { ask: Ask, future: Asking, woken: Arc<Flag> },
    Holding(Held),
}

pub(crate) struct Side {
    keeper: Keeper,
    testing: Testing,
    pub(crate) cut: bool,
}

pub(crate) struct World {
    pub(crate) menu: Menu,
    pub(crate) clock: HandClock,
    onlooker: Arc<dyn Backend>,
    operator: Arc<dyn Session>,
    queue: QueueName,
    /// The seat's keeper and the rival's.
    pub(crate) sides: [Side; 2],
    pub(crate) tasks: [Task; 4],
    /// The tasks of the seat that ask, in the order in which they began.
    order: Vec<usize>,
    /// The watches that were begun and not taken over yet.
    begun: Arc<Mutex<Vec<BoxFuture<()>>>>,
    /// The watches, until they end.
    pub(crate) watches: Vec<Option<(BoxFuture<()>, Arc<Flag>)>>,
    /// The place in which the rival has joined last.
    joined: Arc<LastJoined>,
    pub(crate) paused: bool,
    faults_left: usize,
    removed: usize,
    refused: usize,
    last_token: Option<FencingToken>,
    /// The last turn that may begin while the rival waits.
    turn_allowed: u32,
    pub(crate) history: Vec<Action>,
}

impl Menu {
    fn handoff(&self) -> Handoff {
        if self.is_sticky {
            return Handoff::sticky();
        }
        let turns_max = NonZeroU32::new(self.turns_max).unwrap();
        Handoff::Local { turns_max, time_max: Duration::from_millis(50) }
    }
}

impl World {
    pub(crate) fn new(menu: Menu) -> Self {
        let clock = HandClock::new();
        let service = MemoryService::new(Arc::new(clock.clone()));
        let (joined, begun) = (Arc::new(LastJoined::default()), Arc::new(Mutex::new(Vec::new())));
        let attendant = Attendant::new({
            let begun = begun.clone();
            move |watch| begun.lock().unwrap().push(watch)
        });
        let seated = service.keeper_builder().handoff(menu.handoff()).attendant(attendant).build();
        let strict = service.keeper_builder().observer(joined.clone()).build();
        let side = |keeper: Keeper| Side { testing: keeper.testing().unwrap().clone(), keeper, cut: false };
        let onlooker = service.client().0;
        let operator = at_once(onlooker.session()).unwrap();
        Self {
            menu,
            clock,
            onlooker,
            operator,
            queue: QueueName::new(LOCK).unwrap(),
            sides: [side(seated), side(strict)],
            tasks: [Task::Idle, Task::Idle, Task::Idle, Task::Idle],
            order: Vec::new(),
            begun,
            watches: Vec::new(),
            joined,
            paused: false,
            faults_left: menu.faults_max,
            removed: 0,
            refused: 0,
            last_token: None,
            turn_allowed: menu.turns_max - 1,
            history: Vec::new(),
        }
    }

    /// Returns all actions that are possible now.
    pub(crate) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        // The tasks of a seat are alike, so the first that is idle begins.
        let first_idle = self.tasks[..RIVAL].iter().position(|task| matches!(task, Task::Idle));
        for (number, task) in self.tasks.iter().enumerate() {
            match task {
                Task::Idle if number == RIVAL || first_idle == Some(number) => actions.push(Action::Start(number)),
                Task::Idle => {}
                Task::Asking { woken, .. } => {
                    if woken.is_set() {
                        actions.push(Action::Poll(number));
                    }
                    actions.push(Action::Cancel(number));
                }
                Task::Holding(held) => {
                    actions.push(Action::Release(number));
                    if matches!(held, Held::Write(_)) {
                        actions.push(Action::Downgrade(number));
                    }
                }
            }
        }
        actions.extend(self.woken_watches().map(Action::Watch));
        if self.clock.has_sleepers() || self.sides.iter().any(|side| side.cut) {
            actions.push(Action::Advance);
        }
        let cut = (0..self.sides.len()).filter(|&number| self.sides[number].cut);
        actions.extend(cut.map(Action::Heal));
        if self.paused {
            actions.push(Action::Resume);
        }
        if self.faults_left > 0 {
            self.add_faults(&mut actions);
        }
        actions
    }

    fn add_faults(&self, actions: &mut Vec<Action>) {
        let takes_part = [0, RIVAL].map(|first| {
            let tasks = if first == RIVAL { &self.tasks[RIVAL..] } else { &self.tasks[..RIVAL] };
            tasks.iter().any(|task| !matches!(task, Task::Idle))
        });
        for number in (0..self.sides.len()).filter(|&number| takes_part[number]) {
            actions.push(Action::Expire(number));
            if !self.sides[number].cut {
                actions.push(Action::Cut(number));
            }
        }
        if !self.paused {
            actions.push(Action::Pause);
            let line = self.truth().line.len();
            actions.extend((0..line).map(Action::Remove));
            actions.extend((0..line.min(1)).map(Action::Ask));
        }
        actions.push(Action::LoseReply);
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
            Action::Start(number) => {
                let (ask, side) = if number == RIVAL { (Ask::Mutex, 1) } else { (self.menu.ask, 0) };
                if number != RIVAL {
                    self.order.push(number);
                }
                self.ask(number, ask, ask.of(&self.sides[side].keeper));
            }
            Action::Downgrade(number) => match std::mem::replace(&mut self.tasks[number], Task::Idle) {
                Task::Holding(held) => self.ask(number, Ask::Downgrade, held.downgrade()),
                _ => unreachable!("only a holder is enabled to downgrade"),
            },
            Action::Poll(number) => self.poll(number),
            Action::Cancel(number) => {
                self.tasks[number] = Task::Idle;
                self.order.retain(|other| *other != number);
            }
            Action::Release(number) => self.tasks[number] = Task::Idle,
            Action::Watch(number) => self.poll_watch(number),
            Action::Advance => self.clock.advance(LONG),
            Action::Heal(number) => {
                self.sides[number].cut = false;
                self.sides[number].testing.heal();
            }
            Action::Resume => {
                self.paused = false;
                self.sides[0].testing.resume();
            }
            fault => {
                self.faults_left = self.faults_left.saturating_sub(1);
                self.inflict(fault);
            }
        }
        self.take_over();
        self.note_bound();
    }

    fn inflict(&mut self, fault: Action) {
        match fault {
            Action::Expire(number) => self.sides[number].testing.expire_session(),
            Action::Cut(number) => {
                self.sides[number].cut = true;
                let safe_until = self.clock.now().saturating_add(CUT_SAFE_FOR);
                self.sides[number].testing.cut(SafeUntil::At(safe_until));
            }
            Action::Pause => {
                self.paused = true;
                self.sides[0].testing.pause();
            }
            Action::LoseReply => self.sides[0].testing.drop_next_reply(Operation::Join),
            Action::Remove(position) => {
                self.removed += 1;
                let id = self.truth().line[position].id.clone();
                self.sides[0].testing.remove_contender(LOCK, &id).unwrap();
            }
            Action::Ask(position) => {
                let id = self.truth().line[position].id.clone();
                let request = Request::Yield(Revocation::default());
                // Its reply may be the one that is lost; it takes effect all the same.
                let _ = at_once(self.operator.request(&self.queue, &id, request));
            }
            other => unreachable!("{other:?} is no fault"),
        }
    }

    fn ask(&mut self, number: usize, ask: Ask, future: Asking) {
        self.tasks[number] = Task::Asking { ask, future, woken: Arc::default() };
        self.poll(number);
    }

    fn poll(&mut self, number: usize) {
        let Task::Asking { ask, future, woken } = &mut self.tasks[number] else {
            unreachable!("only those who ask are polled");
        };
        woken.take();
        let (ask, waker) = (*ask, Waker::from(woken.clone()));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(Ok(held)) => self.grant(number, ask, held),
            Poll::Ready(Err(error)) => {
                self.tasks[number] = Task::Idle;
                self.order.retain(|other| *other != number);
                self.accept_refusal(ask, error.kind());
            }
        }
    }

    fn poll_watch(&mut self, number: usize) {
        let Some((watch, woken)) = &mut self.watches[number] else { unreachable!("only a watch is polled") };
        woken.take();
        let waker = Waker::from(woken.clone());
        if watch.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.watches[number] = None;
        }
    }

    /// Takes over the watches that were begun; each is to be polled once.
    fn take_over(&mut self) {
        let begun = std::mem::take(&mut *self.begun.lock().unwrap());
        self.watches.extend(begun.into_iter().map(|watch| Some((watch, Arc::new(Flag::set())))));
    }

    /// A refusal has a cause: the contender was removed, or a fault hit the hold.
    fn accept_refusal(&mut self, ask: Ask, kind: ErrorKind) {
        let history = &self.history;
        match (ask, kind) {
            (Ask::Downgrade, _) => {
                assert!(self.has_fault(), "{kind:?} without a fault: {history:?}");
            }
            (_, ErrorKind::Removed) => {
                self.refused += 1;
                assert!(self.refused <= self.removed, "it was not removed: {history:?}");
            }
            _ => panic!("{kind:?} after {history:?}"),
        }
    }

    fn grant(&mut self, number: usize, ask: Ask, held: Held) {
        let history = &self.history;
        for hold in held.holds() {
            let token = hold.fencing_token();
            assert!(hold.is_held(), "granted what is lost already: {history:?}");
            if ask == Ask::Downgrade {
                assert_eq!(Some(token), self.last_token, "not the writer's token: {history:?}");
                continue;
            }
            assert!(Some(token) > self.last_token, "tokens do not grow: {history:?}");
            if self.last_token.is_some_and(|last| last.as_u64() == token.as_u64()) {
                let is_next = self.last_token.is_some_and(|last| last.turn() + 1 == token.turn());
                assert!(is_next, "a turn was left out: {history:?}");
                assert!(token.turn() <= self.turn_allowed, "more turns than the bound: {history:?}");
            } else {
                assert_eq!(token.turn(), 0, "a grant begins with turn 0: {history:?}");
            }
            self.last_token = Some(token);
        }
        if number != RIVAL && ask != Ask::Downgrade {
            assert_eq!(self.order.first(), Some(&number), "not the first of the line: {history:?}");
            self.order.remove(0);
        }
        self.tasks[number] = Task::Holding(held);
    }

    /// While the rival does not wait, or the seat was not told of it, a turn may begin beyond the bound, and one more.
    fn note_bound(&mut self) {
        let least = self.menu.turns_max - 1;
        let rival = self.rival_place();
        let waits = matches!(self.tasks[RIVAL], Task::Asking { .. })
            && rival.as_ref().is_some_and(|rival| self.truth().line.iter().any(|info| info.id == *rival));
        let is_told = self.woken_watches().next().is_none() && !self.paused && !self.sides[0].cut;
        let turn = self.last_token.map_or(0, FencingToken::turn);
        if !waits || !is_told {
            self.turn_allowed = least.max(turn + 1);
        }
    }

    /// Whether there was a fault.
    pub(crate) const fn has_fault(&self) -> bool {
        self.faults_left < self.menu.faults_max
    }

    /// Returns the place in which the rival has joined last.
    pub(crate) fn rival_place(&self) -> Option<ContenderId> {
        let place = self.joined.replace(None);
        self.joined.replace(place.clone());
        place
    }

    pub(crate) fn woken_watches(&self) -> impl Iterator<Item = usize> + use<'_> {
        let is_woken = |watch: &Option<(_, Arc<Flag>)>| watch.as_ref().is_some_and(|(_, woken)| woken.is_set());
        self.watches.iter().enumerate().filter(move |(_, watch)| is_woken(watch)).map(|(number, _)| number)
    }

    /// Returns which tasks are woken and not yet polled.
    pub(crate) fn woken_tasks(&self) -> impl Iterator<Item = usize> + use<'_> {
        let is_woken = |task: &Task| matches!(task, Task::Asking { woken, .. } if woken.is_set());
        self.tasks.iter().enumerate().filter(move |(_, task)| is_woken(task)).map(|(number, _)| number)
    }

    /// Shows the contenders in the service, without a change to them.
    pub(crate) fn truth(&self) -> Truth {
        Truth::of(at_once(self.onlooker.inspect(&self.queue)).unwrap())
    }
}
