//! Bounds and faults, each explored to its depth, with the number of its schedules.

use super::world::{Menu, World};
use crate::schedule::asks::Ask;
use crate::schedule::explore::explore;

const MENU: Menu = Menu { ask: Ask::Mutex, turns_max: 1, depth: 0, faults_max: 0 };

/// Runs every schedule of a menu, and checks their number, so that a missing one is noticed.
fn every_schedule_of(menu: Menu, expected: usize) {
    let schedules = explore(|choices| {
        let mut world = World::new(menu);
        for _ in 0..menu.depth {
            let actions = world.enabled();
            if actions.is_empty() {
                break;
            }
            let action = actions[choices.choose(actions.len())];
            if choices.are_repeated() {
                world.repeat(action);
            } else {
                world.perform(action);
            }
        }
        world.drain();
    });
    assert_eq!(schedules, expected, "{menu:?}");
}

#[test]
fn every_schedule_of_one_turn_a_grant_without_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 8, ..MENU }, 1);
}

#[test]
fn every_schedule_of_two_turns_a_grant_without_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 8, turns_max: 2, ..MENU }, 1);
}

#[test]
fn every_schedule_of_one_turn_a_grant_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 6, faults_max: 1, ..MENU }, 1);
}

#[test]
fn every_schedule_of_two_turns_a_grant_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 6, faults_max: 1, turns_max: 2, ..MENU }, 1);
}

#[test]
fn every_schedule_of_two_turns_a_grant_with_two_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 5, faults_max: 2, turns_max: 2, ..MENU }, 1);
}

#[test]
fn every_schedule_of_writers_that_downgrade_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { ask: Ask::Write, depth: 6, faults_max: 1, turns_max: 2 }, 1);
}
