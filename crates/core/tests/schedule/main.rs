//! The contend loop under every order of events, on the memory backend, up to a stated depth.
//!
//! There is no runtime: futures are polled by hand, and only when they were woken, so that a lost wake-up is seen. Every
//! sequence of enabled actions is run from scratch; after each step what must always be true is checked, and at the end
//! everything heals and every contender that still wants the lock must get it.

mod clock;
mod explore;
mod world;

use explore::explore;
use world::{Menu, World};

// Each step more takes three to five times as long. These depths take some 15 s together, without optimization on one core.

/// Without faults: starting, polling, cancelling and releasing three contenders of two keepers, again and again. Deep
/// enough for all three to join, wait, be granted and go, in every order.
const CALM: Menu = Menu { depth: 9, faults_max: 0 };

/// With one fault: deep enough for two to join behind a holder, something to happen to any of them, and what follows.
const ONE_FAULT: Menu = Menu { depth: 8, faults_max: 1 };

/// With up to two faults: deep enough for somebody to wait, something to happen, and something else before its end.
const TWO_FAULTS: Menu = Menu { depth: 6, faults_max: 2 };

fn every_schedule_of(menu: Menu) {
    let schedules = explore(|choices| {
        let mut world = World::new(menu.faults_max);
        for _ in 0..menu.depth {
            let actions = world.enabled();
            if actions.is_empty() {
                break;
            }
            world.perform(actions[choices.choose(actions.len())]);
        }
        world.drain();
    });
    println!("{menu:?}: {schedules} schedules");
    assert!(schedules > 1_000, "{schedules} schedules are too few for {menu:?}");
}

#[test]
fn every_schedule_without_faults_serves_everybody_in_order() {
    every_schedule_of(CALM);
}

#[test]
fn every_schedule_with_one_fault_serves_everybody_in_order() {
    every_schedule_of(ONE_FAULT);
}

#[test]
fn every_schedule_with_up_to_two_faults_serves_everybody_in_order() {
    every_schedule_of(TWO_FAULTS);
}
