//! Three tasks of one local queue, a rival of another keeper, one lock, and all events that can happen to them.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_conformance::schedules::Novelty;
use lockkeeper_core::{BoxFuture, ContenderId, FencingToken, Operation, Request, Revocation};
use lockkeeper_recipes::{Handoff, Spawner};

use crate::schedule::asks::{Ask, Asking, Held};
use crate::schedule::flag::{Flag, LastJoined};
use crate::schedule::stage::{Event, Stage, at_once};

/// The rival's number; the tasks of the local queue come before it.
pub(crate) const RIVAL: usize = 3;

/// The size of the schedules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    /// What the tasks of the local queue ask for.
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
    Happen(Event),
    /// A fault: a client asks the first contender to give the lock up.
    AskBack,
}

pub(crate) enum Task {
    Idle,
    Asking { ask: Ask, future: Asking, woken: Arc<Flag> },
    Holding(Held),
}

pub(crate) struct World {
    pub(crate) menu: Menu,
    /// Its keepers are the local queue's and the rival's.
    pub(crate) stage: Stage,
    pub(crate) tasks: [Task; 4],
    /// The tasks of the local queue that ask, in the order in which they began.
    order: Vec<usize>,
    /// The watches that were begun and not taken over yet.
    begun: Arc<Mutex<Vec<BoxFuture<()>>>>,
    /// The watches, until they end.
    pub(crate) watches: Vec<Option<(BoxFuture<()>, Arc<Flag>)>>,
    /// The place in which the rival has joined last.
    joined: Arc<LastJoined>,
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
        let (joined, begun) = (Arc::new(LastJoined::default()), Arc::new(Mutex::new(Vec::new())));
        let spawner = Spawner::new({
            let begun = begun.clone();
            move |watch| begun.lock().unwrap().push(watch)
        });
        let stage = Stage::new(menu.faults_max, |service| {
            let local = service.keeper_builder().handoff(menu.handoff()).spawner(spawner).build();
            [local, service.keeper_builder().observer(joined.clone()).build()]
        });
        Self {
            menu,
            stage,
            tasks: [Task::Idle, Task::Idle, Task::Idle, Task::Idle],
            order: Vec::new(),
            begun,
            watches: Vec::new(),
            joined,
            last_token: None,
            turn_allowed: menu.turns_max - 1,
            history: Vec::new(),
        }
    }

    /// Returns all actions that are possible now.
    pub(crate) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        // The tasks of a local queue are alike, so the first that is idle begins.
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
        let takes_part = [&self.tasks[..RIVAL], &self.tasks[RIVAL..]]
            .map(|tasks| tasks.iter().any(|task| !matches!(task, Task::Idle)));
        let faults = self.stage.faults(takes_part, true, &[Operation::Join]);
        actions.extend(self.stage.events().into_iter().chain(faults).map(Action::Happen));
        if self.stage.may_fault() && !self.stage.paused && !self.stage.truth().line.is_empty() {
            actions.push(Action::AskBack);
        }
        actions
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
            Action::Start(number) => {
                let (ask, side) = if number == RIVAL { (Ask::Mutex, 1) } else { (self.menu.ask, 0) };
                if number != RIVAL {
                    self.order.push(number);
                }
                self.ask(number, ask, ask.of(&self.stage.keepers[side]));
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
            Action::Happen(event) => self.stage.happen(event),
            Action::AskBack => self.ask_back(),
        }
        self.take_over();
        self.note_bound();
    }

    fn ask_back(&mut self) {
        self.stage.count_fault();
        let id = self.stage.truth().line[0].id.clone();
        let request = Request::Yield(Revocation::default());
        // Its reply may be the one that is lost; it takes effect all the same.
        let _ = at_once(self.stage.operator.request(&self.stage.queue, &id, request));
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
                self.stage.accept_refusal(ask, error.kind(), &self.history);
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

    /// While the rival does not wait, or the local queue was not told of it, a turn may begin beyond the
    /// bound, and one more.
    fn note_bound(&mut self) {
        let least = self.menu.turns_max - 1;
        let rival = self.rival_place();
        let waits = matches!(self.tasks[RIVAL], Task::Asking { .. })
            && rival.as_ref().is_some_and(|rival| self.stage.truth().line.iter().any(|info| info.id == *rival));
        let is_told = self.woken_watches().next().is_none() && !self.stage.paused && !self.stage.cut[0];
        let turn = self.last_token.map_or(0, FencingToken::turn);
        if !waits || !is_told {
            self.turn_allowed = least.max(turn + 1);
        }
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
}
