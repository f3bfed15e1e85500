//! Menus of asks and faults, each explored to its depth, with the number of its schedules.

use lockkeeper_conformance::schedules::{play_all, play_menus};
use lockkeeper_core::Operation;

use super::asks::Ask;
use super::world::{Menu, World};

// Each step more takes three to five times as long. These depths take some 80 s of one core together, without
// optimization; a step less, which is what the plain run plays, takes a fifth of that.

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

const RW_LOCK: Menu = Menu { asks: [READ_OR_WRITE; 3], ..MUTEX };

const SEMAPHORE: Menu = Menu {
    asks: [&[Ask::Permits(1, 2)], &[Ask::Permits(2, 2)], &[Ask::Permits(1, 2)]],
    lost_replies: &[Operation::Join, Operation::View, Operation::Value],
    ..MUTEX
};

const READ_OR_WRITE: &[Ask] = &[Ask::Read, Ask::Write];

/// Some ask for the name as a mutex, some as a read/write lock, and writers downgrade beside a mutex that waits.
const BESIDE_A_MUTEX: Menu = Menu { asks: [&[Ask::Write], &[Ask::Mutex, Ask::Read], &[Ask::Mutex]], ..MUTEX };

/// Each asks for one permit of two or for both, and gives them back one by one.
const ONE_OR_BOTH: [&[Ask]; 3] = [&[Ask::Permits(1, 2), Ask::Permits(2, 2)]; 3];

/// One gives another number of permits than the others: two never hold by different numbers, and a refusal has this
/// cause.
const TWO_BOUNDS: [&[Ask]; 3] = [&[Ask::Permits(1, 2)], &[Ask::Permits(1, 1)], &[Ask::Permits(1, 2)]];

/// The counter that bounds the permits is raised, and lowered below what is held: no grant exceeds it then, and no
/// waiter misses its rise.
const COUNTED: [&[Ask]; 3] = [&[Ask::Counted(1)], &[Ask::Counted(2)], &[Ask::Counted(1)]];

fn play(menu: Menu) -> usize {
    play_all(menu.depth, || World::new(menu), World::enabled, World::act, World::drain)
}

/// With one fault each: a menu, and the number of its schedules a step less deep, and all.
const WITH_ONE_FAULT: [(Menu, [usize; 2]); 7] = [
    // Deep enough for two to join behind a holder, a fault of any of them, and its consequences.
    (Menu { depth: 8, ..MUTEX }, [26_655, 109_902]),
    // Deep enough for one to wait behind a writer that downgrades, and for a fault of either.
    (Menu { asks: [READ_OR_WRITE, READ_OR_WRITE, &[Ask::Read]], depth: 6, ..RW_LOCK }, [8_882, 46_852]),
    (Menu { depth: 6, ..BESIDE_A_MUTEX }, [4_355, 21_919]),
    // One contender for both permits between two for one: deep enough for it to wait, for a permit to be given
    // back, and for a fault of the one that holds, looks or waits.
    (Menu { depth: 7, ..SEMAPHORE }, [8_250, 33_547]),
    (Menu { asks: TWO_BOUNDS, depth: 7, ..SEMAPHORE }, [5_047, 17_674]),
    // A foreign client takes permits without waiting for its turn, also between a look and the taking: the other
    // grants never exceed the bound.
    (Menu { depth: 6, intrudes: true, noted: Some(2), ..SEMAPHORE }, [6_013, 31_163]),
    (Menu { asks: COUNTED, depth: 5, pauses: false, counts: &[1, 3], ..SEMAPHORE }, [1_553, 8_531]),
];

fn play_with_one_fault(is_deep: bool) {
    let menus = WITH_ONE_FAULT.map(|(menu, [shallow, deep])| match is_deep {
        true => (Menu { faults_max: 1, ..menu }, deep),
        false => (Menu { faults_max: 1, depth: menu.depth - 1, ..menu }, shallow),
    });
    play_menus(&menus, play);
}

#[test]
fn every_schedule_with_one_fault_serves_all_contenders_in_order() {
    play_with_one_fault(false);
}

#[test]
fn every_deep_schedule_with_one_fault_serves_all_contenders_in_order() {
    play_with_one_fault(true);
}

#[test]
fn every_schedule_without_faults_or_with_two_serves_all_contenders_in_order() {
    let menus = [
        // Deep enough for all three to join, wait, be granted and go, in every order.
        (Menu { depth: 9, ..MUTEX }, 11_432),
        // Each asks to read or to write, and writers downgrade: deep enough for readers and a writer to wait behind a
        // writer that downgrades or gives the lock back, and for the contenders that come in then.
        (Menu { depth: 7, ..RW_LOCK }, 29_911),
        (Menu { depth: 7, ..BESIDE_A_MUTEX }, 6_265),
        (Menu { asks: ONE_OR_BOTH, depth: 7, ..SEMAPHORE }, 20_912),
        // Deep enough for a contender to wait, a fault, and another fault before the first one ends.
        (Menu { depth: 6, faults_max: 2, ..MUTEX }, 32_695),
        (Menu { depth: 5, faults_max: 2, ..RW_LOCK }, 34_967),
        (Menu { depth: 5, faults_max: 2, ..SEMAPHORE }, 10_832),
    ];
    play_menus(&menus, play);
}
