//! Three contenders, two keepers, one lock, and all that can happen to them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::memory::{MemoryService, Testing};
use lockkeeper_core::{
    Backend, ContenderId, ErrorKind, FencingToken, Keeper, MutexGuard, Operation, QueueName, Result, SafeUntil,
};

use crate::clock::HandClock;

/// Contenders 0 and 2 share a keeper, and with it a session.
const KEEPER_OF: [usize; 3] = [0, 1, 0];

const LOCK: &str = "door";

/// Longer than every pause between two attempts, and than every session that is cut off.
const LONG: Duration = Duration::from_secs(3600);

const CUT_SAFE_FOR: Duration = Duration::from_secs(10);

/// More steps than any drain takes: three contenders, each polled a few times.
const DRAIN_STEPS_MAX: usize = 200;

/// How far the schedules go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    /// How many actions there are before everything heals.
    pub(crate) depth: usize,
    /// How many of them may be faults.
    pub(crate) faults_max: usize,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// A contender asks for the lock and is polled for the first time.
    Start(usize),
    /// A contender that was woken is polled.
    Poll(usize),
    /// A contender's future is dropped.
    Cancel(usize),
    /// A contender's guard is dropped.
    Release(usize),
    /// Time passes.
    Advance,
    Heal(usize),
    Resume,
    // Faults.
    Expire(usize),
    Cut(usize),
    Pause,
    LoseJoinReply,
    /// An operator removes the contender at this position.
    Remove(usize),
}

enum Contender {
    Idle,
    Asking {
        future: Pin<Box<dyn Future<Output = Result<MutexGuard>>>>,
        woken: Arc<Flag>,
        /// Whether it was woken before the way was cut, so that what it then finds had reached it.
        told_before_cut: bool,
    },
    Holding(MutexGuard),
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Side {
    keeper: Keeper,
    testing: Testing,
    cut: bool,
}

pub(crate) struct World {
    clock: HandClock,
    onlooker: Arc<dyn Backend>,
    queue: QueueName,
    sides: [Side; 2],
    contenders: [Contender; 3],
    paused: bool,
    faults_left: usize,
    /// How many contenders an operator removed, and how many were refused for that reason.
    removed: usize,
    refused: usize,
    last_token: Option<FencingToken>,
    history: Vec<Action>,
}

impl World {
    pub(crate) fn new(faults_max: usize) -> Self {
        let clock = HandClock::new();
        let service = MemoryService::new(Arc::new(clock.clone()));
        let side = || {
            let keeper = service.keeper();
            let testing = keeper.testing().unwrap().clone();
            Side { keeper, testing, cut: false }
        };
        Self {
            clock,
            onlooker: service.client().0,
            queue: QueueName::new(LOCK).unwrap(),
            sides: [side(), side()],
            contenders: [Contender::Idle, Contender::Idle, Contender::Idle],
            paused: false,
            faults_left: faults_max,
            removed: 0,
            refused: 0,
            last_token: None,
            history: Vec::new(),
        }
    }

    /// Returns all that can happen now.
    pub(crate) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, contender) in self.contenders.iter().enumerate() {
            match contender {
                // Contenders 0 and 2 are alike, so 0 comes first when both are idle.
                Contender::Idle if number == 2 && matches!(self.contenders[0], Contender::Idle) => {}
                Contender::Idle => actions.push(Action::Start(number)),
                Contender::Asking { woken, .. } => {
                    if woken.is_set() {
                        actions.push(Action::Poll(number));
                    }
                    actions.push(Action::Cancel(number));
                }
                Contender::Holding(_) => actions.push(Action::Release(number)),
            }
        }
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
        for (number, side) in self.sides.iter().enumerate() {
            let present =
                |(contender, &keeper): (&Contender, &usize)| keeper == number && !matches!(contender, Contender::Idle);
            // What is done to a keeper that does not take part changes nothing that could be seen.
            if !self.contenders.iter().zip(&KEEPER_OF).any(present) {
                continue;
            }
            actions.push(Action::Expire(number));
            if !side.cut {
                actions.push(Action::Cut(number));
            }
        }
        if !self.paused {
            actions.push(Action::Pause);
        }
        if self.contenders.iter().any(|contender| matches!(contender, Contender::Idle)) {
            actions.push(Action::LoseJoinReply);
        }
        actions.extend((0..self.queue_now().len()).map(Action::Remove));
    }

    pub(crate) fn perform(&mut self, action: Action) {
        self.history.push(action);
        match action {
            Action::Start(number) => {
                let mutex = self.sides[KEEPER_OF[number]].keeper.mutex(LOCK).unwrap();
                let future = Box::pin(async move { mutex.lock().await });
                self.contenders[number] = Contender::Asking { future, woken: Arc::default(), told_before_cut: false };
                self.poll(number);
            }
            Action::Poll(number) => self.poll(number),
            Action::Cancel(number) | Action::Release(number) => self.contenders[number] = Contender::Idle,
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
                self.faults_left -= 1;
                self.inflict(fault);
            }
        }
        self.check();
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
            Action::LoseJoinReply => self.sides[0].testing.drop_next_reply(Operation::Join),
            Action::Remove(position) => {
                self.removed += 1;
                let id = self.queue_now()[position].clone();
                self.sides[0].testing.remove_contender(LOCK, &id).unwrap();
            }
            other => unreachable!("{other:?} is no fault"),
        }
    }

    fn poll(&mut self, number: usize) {
        let Contender::Asking { future, woken, told_before_cut } = &mut self.contenders[number] else {
            unreachable!("only those who ask are polled");
        };
        woken.0.store(false, Ordering::SeqCst);
        let was_told = std::mem::take(told_before_cut);
        let waker = Waker::from(woken.clone());
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(Ok(guard)) => self.grant(number, guard, was_told),
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Removed, "{error:?} after {:?}", self.history);
                self.refused += 1;
                assert!(self.refused <= self.removed, "nobody removed it: {:?}", self.history);
                self.contenders[number] = Contender::Idle;
            }
        }
    }

    fn grant(&mut self, number: usize, guard: MutexGuard, was_told: bool) {
        let history = &self.history;
        assert!(guard.hold().is_held(), "granted what is lost already: {history:?}");
        assert!(Some(guard.fencing_token()) > self.last_token, "tokens do not grow: {history:?}");
        self.last_token = Some(guard.fencing_token());
        assert!(was_told || !self.sides[KEEPER_OF[number]].cut, "granted through a way that is cut: {history:?}");
        self.contenders[number] = Contender::Holding(guard);
    }

    /// What must be true after each step.
    fn check(&self) {
        let (queue, history) = (self.queue_now(), &self.history);
        assert!(queue.is_sorted(), "not in the order of joining: {history:?}");
        let holders: Vec<_> = self.guards().filter(|guard| guard.hold().is_held()).collect();
        assert!(holders.len() <= 1, "{} holders: {history:?}", holders.len());
        for holder in holders {
            assert_eq!(queue.first(), Some(holder.hold().contender()), "not first in line: {history:?}");
        }
        if !self.paused && !self.sides.iter().any(|side| side.cut) {
            let present =
                |contender: &&Contender| matches!(contender, Contender::Asking { .. } | Contender::Holding(_));
            let present = self.contenders.iter().filter(present).count();
            assert!(queue.len() <= present, "{} in the queue of {present}: {history:?}", queue.len());
        }
    }

    fn guards(&self) -> impl Iterator<Item = &MutexGuard> {
        self.contenders.iter().filter_map(|contender| match contender {
            Contender::Holding(guard) => Some(guard),
            _ => None,
        })
    }

    fn queue_now(&self) -> Vec<ContenderId> {
        let inspecting = &mut self.onlooker.inspect(&self.queue);
        let Poll::Ready(contenders) = inspecting.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("a look at the memory backend is answered at once");
        };
        contenders.unwrap().into_iter().map(|contender| contender.id).collect()
    }

    /// Lets everything heal and everybody be served, one after the other.
    pub(crate) fn drain(mut self) {
        for number in 0..self.sides.len() {
            if self.sides[number].cut {
                self.perform(Action::Heal(number));
            }
        }
        if self.paused {
            self.perform(Action::Resume);
        }
        for _ in 0..DRAIN_STEPS_MAX {
            match self.next_to_drain() {
                Some(action) => self.perform(action),
                None => return self.check_drained(),
            }
        }
        panic!("not drained after {DRAIN_STEPS_MAX} steps: {:?}", self.history);
    }

    /// First whoever was woken, then the holders, then time. `None` when all are done.
    fn next_to_drain(&self) -> Option<Action> {
        let numbered = || self.contenders.iter().enumerate();
        let woken = numbered().find_map(|(number, contender)| match contender {
            Contender::Asking { woken, .. } if woken.is_set() => Some(Action::Poll(number)),
            _ => None,
        });
        let holding = || {
            numbered().find_map(|(number, contender)| match contender {
                Contender::Holding(_) => Some(Action::Release(number)),
                _ => None,
            })
        };
        let waits = numbered().any(|(_, contender)| matches!(contender, Contender::Asking { .. }));
        woken.or_else(holding).or_else(|| {
            assert!(
                !waits || self.clock.has_sleepers(),
                "a wake-up was lost: {:?}, in line {:?}",
                self.history,
                self.queue_now()
            );
            waits.then_some(Action::Advance)
        })
    }

    fn check_drained(&self) {
        assert_eq!(self.queue_now(), [], "left behind: {:?}", self.history);
    }
}
