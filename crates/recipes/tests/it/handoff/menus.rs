//! Bounds and faults, each explored to its depth, with the number of its schedules.

use lockkeeper_conformance::schedules::{play_all, play_menus};

use super::world::{Menu, World};
use crate::schedule::asks::Ask;

// Each step more takes four to five times as long. These depths take some 40 s of one core together, without
// optimization; a step less, which is what the plain run plays, takes a fifth of that.

const MENU: Menu = Menu { ask: Ask::Mutex, turns_max: 1, is_sticky: false, depth: 0, faults_max: 0 };

const STICKY: Menu = Menu { is_sticky: true, ..MENU };

fn play(menu: Menu) -> usize {
    play_all(menu.depth, || World::new(menu), World::enabled, World::act, World::drain)
}

/// With one fault each: a menu, and the number of its schedules a step less deep, and all.
const WITH_ONE_FAULT: [(Menu, [usize; 2]); 5] = [
    (Menu { depth: 7, ..MENU }, [11_779, 64_082]),
    // Deep enough for a turn to be passed on before or after a fault of either keeper.
    (Menu { depth: 7, turns_max: 2, ..MENU }, [11_775, 63_943]),
    // A writer that downgrades passes its place to none; the local queue takes another one.
    (Menu { ask: Ask::Write, depth: 6, turns_max: 2, ..MENU }, [3_202, 18_390]),
    (Menu { depth: 7, ..STICKY }, [12_944, 70_960]),
    (Menu { ask: Ask::Write, depth: 6, ..STICKY }, [3_394, 19_768]),
];

fn play_with_one_fault(is_deep: bool) {
    let menus = WITH_ONE_FAULT.map(|(menu, [shallow, deep])| match is_deep {
        true => (Menu { faults_max: 1, ..menu }, deep),
        false => (Menu { faults_max: 1, depth: menu.depth - 1, ..menu }, shallow),
    });
    play_menus(&menus, play);
}

#[test]
fn every_schedule_of_a_hand_off_with_one_fault_serves_all_tasks_in_order() {
    play_with_one_fault(false);
}

#[test]
fn every_deep_schedule_of_a_hand_off_with_one_fault_serves_all_tasks_in_order() {
    play_with_one_fault(true);
}

#[test]
fn every_schedule_of_a_hand_off_without_faults_or_with_two_serves_all_tasks_in_order() {
    let menus = [
        // Deep enough for two tasks to wait behind a third, for the rival to come, and for each to go.
        (Menu { depth: 9, ..MENU }, 100_048),
        (Menu { depth: 9, turns_max: 2, ..MENU }, 96_706),
        // Deep enough for a place to be idle, taken again, and given up for the rival.
        (Menu { depth: 9, ..STICKY }, 114_548),
        (Menu { depth: 6, faults_max: 2, turns_max: 2, ..MENU }, 49_094),
        (Menu { depth: 6, faults_max: 2, ..STICKY }, 52_315),
    ];
    play_menus(&menus, play);
}
