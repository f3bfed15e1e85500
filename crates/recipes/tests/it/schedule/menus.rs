//! Menus of asks and faults, each explored to its depth, with the number of its schedules.

use lockkeeper_core::Operation;

use super::asks::Ask;
use super::explore::play_all;
use super::world::{Menu, World};

// Each step more takes three to five times as long. These depths take some 80 s of one core together, without
// optimization.

const MUTEX: Menu = Menu {
    asks: [&[Ask::Mutex]; 3],
    depth: 0,
    faults_max: 0,
    lost_replies: &[Operation::Join],
    pauses: true,
    intrudes: false,
    counts: &[],
    noted: None,
};

const RW_LOCK: Menu = Menu { asks: [&[Ask::Read, Ask::Write]; 3], ..MUTEX };

const SEMAPHORE: Menu = Menu {
    asks: [&[Ask::Permits(1, 2)], &[Ask::Permits(2, 2)], &[Ask::Permits(1, 2)]],
    lost_replies: &[Operation::Join, Operation::View, Operation::Value],
    ..MUTEX
};

/// Runs every schedule of a menu, and checks their number, so that a missing one is noticed.
fn every_schedule_of(menu: Menu, expected: usize) {
    let schedules = play_all(menu.depth, || World::new(menu), World::enabled, World::act, World::drain);
    assert_eq!(schedules, expected, "{menu:?}");
}

/// Deep enough for all three to join, wait, be granted and go, in every order.
#[test]
fn every_schedule_of_mutexes_without_faults_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 9, ..MUTEX }, 11_432);
}

/// Deep enough for two to join behind a holder, a fault of any of them, and its consequences.
#[test]
fn every_schedule_of_mutexes_with_one_fault_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 8, faults_max: 1, ..MUTEX }, 109_897);
}

/// Deep enough for a contender to wait, a fault, and another fault before the first one ends.
#[test]
fn every_schedule_of_mutexes_with_two_faults_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 6, faults_max: 2, ..MUTEX }, 32_695);
}

/// Each asks to read or to write, and writers downgrade: deep enough for readers and a writer to wait behind a writer
/// that downgrades or gives the lock back, and for the contenders that come in then.
#[test]
fn every_schedule_of_readers_and_writers_without_faults_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 7, ..RW_LOCK }, 29_911);
}

/// Deep enough for one to wait behind a writer that downgrades, and for a fault of either.
#[test]
fn every_schedule_of_readers_and_writers_with_one_fault_serves_all_contenders_in_order() {
    const EITHER: &[Ask] = &[Ask::Read, Ask::Write];
    every_schedule_of(Menu { asks: [EITHER, EITHER, &[Ask::Read]], depth: 6, faults_max: 1, ..RW_LOCK }, 46_852);
}

/// Deep enough for a contender to wait, a fault, and another fault before the first one ends.
#[test]
fn every_schedule_of_readers_and_writers_with_two_faults_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 5, faults_max: 2, ..RW_LOCK }, 34_967);
}

/// Some ask for the name as a mutex, some as a read/write lock, and writers downgrade beside a mutex that waits.
#[test]
fn every_schedule_of_a_mutex_beside_readers_and_writers_serves_all_contenders_in_order() {
    const ASKS: [&[Ask]; 3] = [&[Ask::Write], &[Ask::Mutex, Ask::Read], &[Ask::Mutex]];
    every_schedule_of(Menu { asks: ASKS, depth: 7, ..MUTEX }, 6_265);
}

/// As above, with a fault of any of them.
#[test]
fn every_schedule_of_a_mutex_beside_readers_and_writers_with_one_fault_serves_all_contenders_in_order() {
    const ASKS: [&[Ask]; 3] = [&[Ask::Write], &[Ask::Mutex, Ask::Read], &[Ask::Mutex]];
    every_schedule_of(Menu { asks: ASKS, depth: 6, faults_max: 1, ..MUTEX }, 21_919);
}

/// Each asks for one permit of two or for both, and gives them back one by one.
#[test]
fn every_schedule_of_a_semaphore_without_faults_serves_all_contenders_in_order() {
    const EITHER: &[Ask] = &[Ask::Permits(1, 2), Ask::Permits(2, 2)];
    every_schedule_of(Menu { asks: [EITHER; 3], depth: 7, ..SEMAPHORE }, 20_912);
}

/// One contender for both permits between two for one: deep enough for it to wait, for a permit to be given back, and
/// for a fault of the one that holds, looks or waits.
#[test]
fn every_schedule_of_a_semaphore_with_one_fault_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 7, faults_max: 1, ..SEMAPHORE }, 33_547);
}

/// Deep enough for a contender to wait for permits, a fault, and another fault before the first one ends.
#[test]
fn every_schedule_of_a_semaphore_with_two_faults_serves_all_contenders_in_order() {
    every_schedule_of(Menu { depth: 5, faults_max: 2, ..SEMAPHORE }, 10_832);
}

/// One gives another number of permits than the others: two never hold by different numbers, and a refusal has this
/// cause.
#[test]
fn every_schedule_with_two_bounds_has_one_of_them_at_a_time() {
    const ASKS: [&[Ask]; 3] = [&[Ask::Permits(1, 2)], &[Ask::Permits(1, 1)], &[Ask::Permits(1, 2)]];
    every_schedule_of(Menu { asks: ASKS, depth: 7, faults_max: 1, ..SEMAPHORE }, 17_674);
}

/// A foreign client takes permits without waiting for its turn, also between a look and the taking: the other grants
/// never exceed the bound.
#[test]
fn every_schedule_with_a_foreign_client_that_passes_the_waiters_keeps_the_bound() {
    every_schedule_of(Menu { depth: 6, faults_max: 1, intrudes: true, noted: Some(2), ..SEMAPHORE }, 31_163);
}

/// The counter that bounds the permits is raised, and lowered below what is held: no grant exceeds it then, and no
/// waiter misses its rise.
#[test]
fn every_schedule_with_a_counter_that_changes_keeps_to_it() {
    const ASKS: [&[Ask]; 3] = [&[Ask::Counted(1)], &[Ask::Counted(2)], &[Ask::Counted(1)]];
    every_schedule_of(Menu { asks: ASKS, depth: 5, faults_max: 1, pauses: false, counts: &[1, 3], ..SEMAPHORE }, 8_531);
}
