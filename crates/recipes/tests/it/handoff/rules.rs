//! The rules: after each step, and when all connections have healed and all tasks were served.

use lockkeeper_core::{ContenderInfo, Mode};

use super::world::{Action, RIVAL, Task, World};
use crate::schedule::asks::{Ask, Held};
use crate::schedule::stage::Event;
use crate::schedule::truth::Truth;

/// More steps than any drain takes.
const DRAIN_STEPS_MAX: usize = 300;

impl World {
    /// What must be true after each step.
    pub(crate) fn check(&self) {
        let (truth, history) = (self.stage.truth(), &self.history);
        assert!(truth.is_in_order(), "not in the order of joining: {history:?}");
        let held: Vec<_> = self.tasks.iter().filter_map(Task::held).collect();
        let is_alone = |held: &&Held| matches!(held, Held::Mutex(_) | Held::Write(_));
        assert!(held.len() <= 1 || !held.iter().any(is_alone), "{} hold what one has alone: {history:?}", held.len());
        for hold in held.iter().flat_map(|held| held.holds()).filter(|hold| hold.is_held()) {
            assert!(truth.holds(hold.contender()), "not held in the service: {history:?}");
        }
        if !self.stage.has_fault() {
            let is_lost = |task: &Task| matches!(task, Task::Holding(_)) && task.held().is_none();
            assert!(!self.tasks.iter().any(is_lost), "lost without a fault: {history:?}");
        }
        if !self.stage.all_connected() {
            return;
        }
        self.check_nothing_left(&truth);
        let all_told = self.woken_tasks().next().is_none() && self.woken_watches().next().is_none();
        // Without a fault no call pauses: those that sleep are the watches.
        if all_told && (!self.stage.clock.has_sleepers() || !self.stage.has_fault()) {
            self.check_none_waits_in_vain(&truth);
        }
    }

    /// The local queue is one contender, and none when no task is there and idle places are not kept; a reader that was
    /// a writer is one for itself.
    fn check_nothing_left(&self, truth: &Truth) {
        let is_asking = |task: &Task| matches!(task, Task::Asking { .. });
        let local_tasks = &self.tasks[..RIVAL];
        let readers =
            |task: &&Task| matches!(task, Task::Holding(Held::Read(_)) | Task::Asking { ask: Ask::Downgrade, .. });
        let readers = local_tasks.iter().filter(readers).count();
        let has_local_queue = local_tasks.iter().any(|task| is_asking(task) || matches!(task, Task::Holding(..)));
        let has_rival = !matches!(self.tasks[RIVAL], Task::Idle);
        let most = usize::from(has_local_queue || self.menu.is_sticky) + readers + usize::from(has_rival);
        assert!(truth.line.len() <= most, "left behind: {:?} with {truth:?}", self.history);
    }

    /// No task that could go still waits, now that all was told. A hold that was lost is kept by its guard, as under
    /// any policy, unless a task of its process waits behind it.
    fn check_none_waits_in_vain(&self, truth: &Truth) {
        let history = &self.history;
        let is_asking = |task: &Task| matches!(task, Task::Asking { .. });
        let rival = self.rival_place();
        if let Some(rival) = rival.as_ref().filter(|_| is_asking(&self.tasks[RIVAL])) {
            assert!(!truth.could_go(Mode::Mutex, rival, false), "a wake-up was lost: {history:?} with {truth:?}");
        }
        let local_tasks = &self.tasks[..RIVAL];
        let is_idle = local_tasks.iter().all(|task| matches!(task, Task::Idle));
        if is_idle && rival.is_some() && is_asking(&self.tasks[RIVAL]) {
            assert!(truth.line.len() <= 1, "behind an idle place: {history:?} with {truth:?}");
        }
        let (waits, holds) = (local_tasks.iter().any(is_asking), local_tasks.iter().any(|task| task.held().is_some()));
        if waits && !holds {
            let is_behind = |first: &ContenderInfo| Some(&first.id) == rival.as_ref() || first.mode == Mode::Read;
            let is_behind = truth.line.first().is_some_and(is_behind);
            assert!(is_behind, "a wake-up was lost: {history:?} with {truth:?}");
        }
    }

    /// Heals all connections and serves all tasks, one after the other.
    pub(crate) fn drain(mut self) {
        for event in self.stage.healing() {
            self.perform(Action::Happen(event));
        }
        for _ in 0..DRAIN_STEPS_MAX {
            match self.next_to_drain() {
                Some(action) => self.perform(action),
                None => return self.check_drained(),
            }
        }
        panic!("not drained after {DRAIN_STEPS_MAX} steps: {:?}", self.history);
    }

    /// First what was woken, then the holders, then time. `None` when all are done.
    fn next_to_drain(&self) -> Option<Action> {
        let woken = self.woken_tasks().next().map(Action::Poll);
        let watch = || self.woken_watches().next().map(Action::Watch);
        let holding = || self.tasks.iter().position(|task| matches!(task, Task::Holding(..))).map(Action::Release);
        woken.or_else(watch).or_else(holding).or_else(|| {
            let waits = self.tasks.iter().any(|task| matches!(task, Task::Asking { .. }));
            let goes_on = !waits || self.stage.clock.has_sleepers();
            assert!(goes_on, "a wake-up was lost: {:?} with {:?}", self.history, self.stage.truth());
            // An idle place is left in time.
            (waits || self.menu.is_sticky && !self.stage.truth().is_empty()).then_some(Action::Happen(Event::Advance))
        })
    }

    fn check_drained(&self) {
        let (truth, history) = (self.stage.truth(), &self.history);
        assert!(truth.is_empty(), "left behind: {history:?} with {truth:?}");
        assert!(self.watches.iter().all(Option::is_none), "a watch goes on: {history:?}");
    }
}

impl Task {
    /// Returns what it holds, if it may believe so.
    fn held(&self) -> Option<&Held> {
        match self {
            Self::Holding(held) if held.holds().iter().any(|hold| hold.is_held()) => Some(held),
            _ => None,
        }
    }
}
