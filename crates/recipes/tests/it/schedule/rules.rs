//! The rules: after each step, at each release, and when all connections have healed and all contenders were served.

use lockkeeper_core::Part;

use super::asks::{Ask, Held};
use super::stage::Event;
use super::truth::Truth;
use super::world::{Action, Contender, World};

/// More steps than any drain takes: three contenders, each polled a few times.
const DRAIN_STEPS_MAX: usize = 200;

/// The value of the counter in the end, so that all contenders can be served.
const COUNTED_AT_LAST: i32 = 2;

impl World {
    /// What must be true after each step.
    pub(crate) fn check(&self) {
        let (truth, history) = (self.stage.truth(), &self.history);
        assert!(truth.is_in_order(), "not in the order of joining: {history:?}");
        self.check_exclusion();
        for (ask, held) in self.held() {
            for hold in held.holds().into_iter().filter(|hold| hold.is_held()) {
                assert!(truth.holds(hold.contender()), "{ask:?} is not held in the service: {history:?}");
            }
        }
        let all_connected = self.stage.all_connected();
        if all_connected {
            self.check_nothing_left(&truth);
        }
        let all_told = self.woken() == [false; 3] && !self.stage.clock.has_sleepers();
        if all_connected && all_told {
            self.check_no_waiter_waits_in_vain(&truth);
        }
    }

    fn check_exclusion(&self) {
        let history = &self.history;
        let held = self
            .held()
            .flat_map(|(ask, held)| held.holds().into_iter().filter(|hold| hold.is_held()).map(move |_| (ask, held)));
        let held: Vec<_> = held.collect();
        let alone = held.iter().any(|(_, held)| matches!(held, Held::Mutex(_) | Held::Write(_)));
        assert!(!alone || held.len() == 1, "{} hold what one has alone: {history:?}", held.len());
        let bound = held.iter().find_map(|(ask, _)| match ask {
            Ask::Permits(_, bound) => Some(*bound),
            _ => None,
        });
        if let Some(bound) = bound {
            assert!(held.len() <= bound as usize, "{} permits of {bound}: {history:?}", held.len());
            let is_agreed = held.iter().all(|(ask, _)| matches!(ask, Ask::Permits(_, said) if *said == bound));
            assert!(is_agreed, "by different bounds: {history:?}");
        }
    }

    /// When permits are granted, there are not more than are allowed, with those of all clients. Permits taken after
    /// ours do not count: their taker must check them.
    pub(crate) fn check_permits_at_grant(&self, ask: Ask, held: &Held, truth: &Truth) {
        let allowed = match ask {
            Ask::Permits(_, bound) => bound as usize,
            Ask::Counted(_) => usize::try_from(self.counted).unwrap_or(0),
            _ => return,
        };
        let is_ours = |id| held.holds().iter().any(|hold| hold.contender() == id);
        let taken = truth.permits.iter().rposition(|permit| is_ours(&permit.id)).map_or(0, |last| last + 1);
        assert!((1..=allowed).contains(&taken), "{taken} permits of {allowed}: {:?}", self.history);
    }

    fn check_nothing_left(&self, truth: &Truth) {
        let (mut line, mut waiters, mut permits) = (0, 0, usize::from(self.has_intruder()));
        for contender in &self.contenders {
            match contender {
                Contender::Idle => {}
                // The writer's place, and the reader's beside it.
                Contender::Asking { ask: Ask::Downgrade, .. } => line += 2,
                Contender::Asking { ask, .. } if ask.part() == Part::Line => line += 1,
                Contender::Asking { ask, .. } => {
                    waiters += 1;
                    permits += ask.wanted() as usize;
                }
                Contender::Holding(_, Held::Permits(held)) => permits += held.len(),
                Contender::Holding(..) => line += 1,
            }
        }
        let is_left = truth.line.len() > line || truth.waiters.len() > waiters || truth.permits.len() > permits;
        assert!(!is_left, "left behind: {truth:?} after {:?}", self.history);
    }

    /// No contender that could go still waits, now that all events have been delivered and handled.
    fn check_no_waiter_waits_in_vain(&self, truth: &Truth) {
        for contender in &self.contenders {
            let Contender::Asking { ask, joined, .. } = contender else {
                continue;
            };
            let bound = match ask {
                Ask::Permits(_, bound) => *bound as usize,
                _ => usize::try_from(self.counted).unwrap_or(0),
            };
            let permits_fit = truth.permits.len() + ask.wanted() as usize <= bound;
            let could_go = joined.as_ref().is_none_or(|joined| truth.could_go(ask.mode(), joined, permits_fit));
            assert!(!could_go, "a wake-up was lost: {ask:?} waits in {truth:?} after {:?}", self.history);
        }
    }

    /// A release wakes one contender; or, of a read/write lock, readers that can all go.
    pub(crate) fn check_wake_ups(&self, before: [bool; 3]) {
        let now = self.woken();
        let newly: Vec<_> = (0..now.len()).filter(|&number| now[number] && !before[number]).collect();
        let reads = |number: &usize| matches!(self.contenders[*number], Contender::Asking { ask: Ask::Read, .. });
        let is_one_wake_up = newly.len() <= 1 || newly.iter().all(reads);
        assert!(is_one_wake_up, "{newly:?} were woken by one release: {:?}", self.history);
    }

    fn held(&self) -> impl Iterator<Item = (Ask, &Held)> {
        self.contenders.iter().filter_map(|contender| match contender {
            Contender::Holding(ask, held) => Some((*ask, held)),
            _ => None,
        })
    }

    /// Heals all connections and serves all contenders, one after the other.
    pub(crate) fn drain(mut self) {
        for event in self.stage.healing() {
            self.perform(Action::Happen(event));
        }
        if self.has_intruder() {
            self.perform(Action::Retreat);
        }
        if self.counted != COUNTED_AT_LAST {
            self.perform(Action::Count(COUNTED_AT_LAST));
        }
        for _ in 0..DRAIN_STEPS_MAX {
            match self.next_to_drain() {
                Some(action) => self.perform(action),
                None => return self.check_drained(),
            }
        }
        panic!("not drained after {DRAIN_STEPS_MAX} steps: {:?}", self.history);
    }

    /// First the contenders that were woken, then the holders, then time. `None` when all are done.
    fn next_to_drain(&self) -> Option<Action> {
        let of = |is_it: fn(&Contender) -> bool| self.contenders.iter().position(is_it);
        let woken = self.woken().iter().position(|&woken| woken).map(Action::Poll);
        let holding = || of(|contender| matches!(contender, Contender::Holding(..))).map(Action::Release);
        let waits = of(|contender| matches!(contender, Contender::Asking { .. })).is_some();
        woken.or_else(holding).or_else(|| {
            let goes_on = !waits || self.stage.clock.has_sleepers();
            assert!(goes_on, "a wake-up was lost: {:?} after {:?}", self.stage.truth(), self.history);
            waits.then_some(Action::Happen(Event::Advance))
        })
    }

    fn check_drained(&self) {
        let truth = self.stage.truth();
        assert!(truth.is_empty(), "left behind: {truth:?} after {:?}", self.history);
    }
}
