//! Every sequence of choices, depth first, each run from scratch.

use std::fmt::Debug;
use std::thread;

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
    fn are_repeated(&self) -> bool {
        self.position < self.taken.len()
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
fn explore(mut run: impl FnMut(&mut Choices)) -> usize {
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

/// Plays every sequence of so many actions in a new world each, and returns their number. `act` is told whether an
/// earlier run has done the same; in the end a world is drained.
pub(crate) fn play_all<World, Action: Copy>(
    depth: usize,
    begin: impl Fn() -> World,
    enabled: fn(&World) -> Vec<Action>,
    act: fn(&mut World, Action, bool),
    drain: fn(World),
) -> usize {
    explore(|choices| {
        let mut world = begin();
        for _ in 0..depth {
            let actions = enabled(&world);
            if actions.is_empty() {
                break;
            }
            let action = actions[choices.choose(actions.len())];
            act(&mut world, action, choices.are_repeated());
        }
        drain(world);
    })
}

/// Plays every schedule of each menu, all menus at the same time, and checks their numbers, so that a missing schedule
/// is noticed.
pub(crate) fn play_menus<Menu: Copy + Debug + Send + Sync>(menus: &[(Menu, usize)], play: fn(Menu) -> usize) {
    thread::scope(|scope| {
        for &(menu, expected) in menus {
            scope.spawn(move || assert_eq!(play(menu), expected, "{menu:?}"));
        }
    });
}

#[test]
fn every_sequence_is_run_once() {
    let mut seen = Vec::new();
    let runs = explore(|choices| {
        let first = choices.choose(2);
        // The second choice is offered after only one of the first ones.
        let second = (first == 1).then(|| choices.choose(3));
        seen.push((first, second));
    });
    assert_eq!(seen, [(0, None), (1, Some(0)), (1, Some(1)), (1, Some(2))]);
    assert_eq!(runs, 4);
}
