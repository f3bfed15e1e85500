//! Every schedule of a pure model of a service and its clients, depth first, each state explored once.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A service and its clients as one value, in which one action follows the other.
///
/// Equal values have equal futures: what a rule looks at is part of the value.
pub trait ServiceModel: Clone + Eq + Hash {
    /// What can happen.
    type Action: Copy + Debug;

    /// Returns what can happen now, always in the same order.
    fn enabled(&self) -> Vec<Self::Action>;

    /// Lets this happen, and checks the rules.
    ///
    /// # Errors
    ///
    /// Which rule is broken now, and how.
    fn act(&mut self, action: Self::Action) -> Result<(), String>;

    /// Lets all that was lost or late be over at the end of a schedule, and checks what must hold then.
    ///
    /// # Errors
    ///
    /// Which rule is broken, and how.
    fn end(&self) -> Result<(), String> {
        Ok(())
    }
}

/// What was explored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored<Action> {
    /// The schedules that were played to their end, or until one was wrong.
    pub schedules: usize,
    /// The different states that were reached, each with so many actions left.
    pub states: usize,
    /// The first schedule that broke a rule; nothing was explored after it.
    pub wrong: Option<Wrong<Action>>,
}

impl<Action: Debug> Explored<Action> {
    /// Returns the number of schedules, of which none may be wrong.
    ///
    /// # Panics
    ///
    /// Panics with the schedule that is wrong.
    #[must_use]
    pub fn all_right(self) -> usize {
        match self.wrong {
            None => self.schedules,
            Some(Wrong { actions, rule }) => panic!("{rule}, after {actions:#?}"),
        }
    }
}

/// A schedule that breaks a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wrong<Action> {
    /// What happened.
    pub actions: Vec<Action>,
    /// Which rule was broken, and how.
    pub rule: String,
}

/// Plays every schedule of so many actions, or until one is wrong. A schedule whose first actions led to a known state
/// is counted and not played.
pub fn explore<Model: ServiceModel>(begin: &Model, depth: usize) -> Explored<Model::Action> {
    let mut walk = Walk { played: HashMap::new(), path: Vec::new(), schedules: 0 };
    let wrong = walk.visit(begin, depth).err().map(|rule| Wrong { actions: walk.path, rule });
    Explored { schedules: walk.schedules + usize::from(wrong.is_some()), states: walk.played.len(), wrong }
}

struct Walk<Model: ServiceModel> {
    /// The states that were explored with so many actions left, and how many schedules went on from them.
    played: HashMap<(Model, usize), usize>,
    path: Vec<Model::Action>,
    schedules: usize,
}

impl<Model: ServiceModel> Walk<Model> {
    /// Explores from this state. The path of a schedule that is wrong stays.
    fn visit(&mut self, model: &Model, depth: usize) -> Result<(), String> {
        let key = (model.clone(), depth);
        if let Some(schedules) = self.played.get(&key) {
            self.schedules += schedules;
            return Ok(());
        }
        let before = self.schedules;
        let actions = if depth == 0 { Vec::new() } else { model.enabled() };
        if actions.is_empty() {
            model.end()?;
            self.schedules += 1;
        }
        for action in actions {
            let mut next = model.clone();
            self.path.push(action);
            next.act(action)?;
            self.visit(&next, depth - 1)?;
            self.path.pop();
        }
        self.played.insert(key, self.schedules - before);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two that each count to three.
    #[derive(Clone, Eq, Hash, PartialEq)]
    struct Counters {
        counts: [u8; 2],
        forbidden: [u8; 2],
    }

    impl ServiceModel for Counters {
        type Action = usize;

        fn enabled(&self) -> Vec<usize> {
            (0..2).filter(|&which| self.counts[which] < 3).collect()
        }

        fn act(&mut self, which: usize) -> Result<(), String> {
            self.counts[which] += 1;
            if self.counts == self.forbidden { Err(format!("{:?}", self.counts)) } else { Ok(()) }
        }
    }

    fn counters(forbidden: [u8; 2]) -> Counters {
        Counters { counts: [0, 0], forbidden }
    }

    #[test]
    fn every_schedule_is_counted_and_every_state_explored_once() {
        let explored = explore(&counters([9, 9]), 10);
        assert_eq!((explored.schedules, explored.states), (20, 16), "of six steps, three are those of the first one");
        assert_eq!(explore(&counters([9, 9]), 2).all_right(), 4);
    }

    #[test]
    fn the_first_schedule_that_is_wrong_is_shown_with_the_number_of_those_until_then() {
        let explored = explore(&counters([1, 1]), 10);
        assert_eq!(explored.schedules, 5, "four begin with two steps of the first one");
        let wrong = explored.wrong.expect("both reach one");
        assert_eq!((&wrong.actions[..], &wrong.rule[..]), (&[0, 1][..], "[1, 1]"));
    }

    #[test]
    #[should_panic(expected = "[3, 3], after")]
    fn a_wrong_schedule_fails_the_test() {
        _ = explore(&counters([3, 3]), 10).all_right();
    }
}
