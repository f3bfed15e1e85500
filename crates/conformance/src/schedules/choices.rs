//! Every sequence of choices, depth first, each run from scratch.

use std::fmt::Debug;
use std::thread;

/// Whether an earlier schedule began with the same actions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing between them")]
pub enum Novelty {
    /// None did: what follows is to be checked.
    New,
    /// One did, and was checked.
    Repeated,
}

/// The choices of one run: recorded ones are repeated, further ones start at the first.
#[derive(Debug, Default)]
struct Choices {
    /// Each choice, and the number of its options.
    taken: Vec<(usize, usize)>,
    position: usize,
}

impl Choices {
    /// Chooses one of `count`, which is not zero.
    fn choose(&mut self, count: usize) -> usize {
        if self.position == self.taken.len() {
            self.taken.push((0, count));
        }
        let (chosen, before) = self.taken[self.position];
        assert_eq!(before, count, "a run is not the same when it is repeated");
        self.position += 1;
        chosen
    }

    /// Tells whether an earlier run made all the same choices so far.
    fn novelty(&self) -> Novelty {
        if self.position < self.taken.len() { Novelty::Repeated } else { Novelty::New }
    }

    /// Moves on to the next sequence; false if this was the last one.
    fn advance(&mut self) -> bool {
        self.position = 0;
        while let Some((chosen, count)) = self.taken.pop() {
            if chosen + 1 < count {
                self.taken.push((chosen + 1, count));
                return true;
            }
        }
        false
    }
}

/// Calls `run` with every sequence of choices that it asks for, and returns their number.
fn run_all(mut run: impl FnMut(&mut Choices)) -> usize {
    let mut choices = Choices::default();
    let mut runs = 0;
    loop {
        run(&mut choices);
        runs += 1;
        if !choices.advance() {
            return runs;
        }
    }
}

/// Plays every sequence of so many actions in a new world each, and returns their number. In the end a world is
/// drained.
pub fn play_all<World, Action: Copy>(
    depth: usize,
    begin: impl Fn() -> World,
    enabled: fn(&World) -> Vec<Action>,
    act: fn(&mut World, Action, Novelty),
    drain: fn(World),
) -> usize {
    run_all(|choices| {
        let mut world = begin();
        for _ in 0..depth {
            let actions = enabled(&world);
            if actions.is_empty() {
                break;
            }
            let action = actions[choices.choose(actions.len())];
            act(&mut world, action, choices.novelty());
        }
        drain(world);
    })
}

/// Plays every schedule of each menu, all menus at the same time, and checks their numbers, so that a missing schedule
/// is noticed.
///
/// # Panics
///
/// Panics if a number is not the expected one.
pub fn play_menus<Menu: Copy + Debug + Send + Sync>(menus: &[(Menu, usize)], play: fn(Menu) -> usize) {
    thread::scope(|scope| {
        for &(menu, expected) in menus {
            scope.spawn(move || assert_eq!(play(menu), expected, "{menu:?}"));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::run_all;

    #[test]
    fn every_sequence_is_run_once() {
        let mut seen = Vec::new();
        let runs = run_all(|choices| {
            let first = choices.choose(2);
            // The second choice is offered after only one of the first ones.
            let second = (first == 1).then(|| choices.choose(3));
            seen.push((first, second));
        });
        assert_eq!(seen, [(0, None), (1, Some(0)), (1, Some(1)), (1, Some(2))]);
        assert_eq!(runs, 4);
    }
}
