//! Bounds and faults, each explored to its depth, with the number of its schedules.

use super::world::{Menu, World};
use crate::schedule::asks::Ask;
use crate::schedule::explore::play_all;

// Each step more takes four to five times as long. These depths take some 40 s of one core together, without
// optimization.

const MENU: Menu = Menu { ask: Ask::Mutex, turns_max: 1, is_sticky: false, depth: 0, faults_max: 0 };

/// Runs every schedule of a menu, and checks their number, so that a missing one is noticed.
fn every_schedule_of(menu: Menu, expected: usize) {
    let schedules = play_all(menu.depth, || World::new(menu), World::enabled, World::act, World::drain);
    assert_eq!(schedules, expected, "{menu:?}");
}

/// Deep enough for two tasks to wait behind a third, for the rival to come, and for each to go.
#[test]
fn every_schedule_of_one_turn_a_grant_without_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 9, ..MENU }, 100_048);
}

#[test]
fn every_schedule_of_two_turns_a_grant_without_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 9, turns_max: 2, ..MENU }, 96_706);
}

#[test]
fn every_schedule_of_one_turn_a_grant_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 7, faults_max: 1, ..MENU }, 64_082);
}

/// Deep enough for a turn to be passed on before or after a fault of either keeper.
#[test]
fn every_schedule_of_two_turns_a_grant_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 7, faults_max: 1, turns_max: 2, ..MENU }, 63_943);
}

#[test]
fn every_schedule_of_two_turns_a_grant_with_two_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 6, faults_max: 2, turns_max: 2, ..MENU }, 49_094);
}

/// A writer that downgrades passes its place to none; the seat takes another one.
#[test]
fn every_schedule_of_writers_that_downgrade_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { ask: Ask::Write, depth: 6, faults_max: 1, turns_max: 2, ..MENU }, 18_390);
}

const STICKY: Menu = Menu { is_sticky: true, ..MENU };

/// Deep enough for a place to be idle, taken again, and given up for the rival.
#[test]
fn every_schedule_of_kept_places_without_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 9, ..STICKY }, 114_548);
}

#[test]
fn every_schedule_of_kept_places_with_one_fault_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 7, faults_max: 1, ..STICKY }, 70_960);
}

#[test]
fn every_schedule_of_kept_places_with_two_faults_serves_all_tasks_in_order() {
    every_schedule_of(Menu { depth: 6, faults_max: 2, ..STICKY }, 52_315);
}

#[test]
fn every_schedule_of_kept_places_of_writers_that_downgrade_serves_all_tasks_in_order() {
    every_schedule_of(Menu { ask: Ask::Write, depth: 6, faults_max: 1, ..STICKY }, 19_768);
}
