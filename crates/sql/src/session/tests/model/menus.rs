//! Menus of what may happen, each explored to its depth, with the number of its schedules; and the wrong rules that
//! they find.

use lockkeeper_conformance::schedules::{explore, play_menus};
use lockkeeper_faults::figures;

use super::actions::Action::{self, *};
use super::actions::{Ending, Menu};
use super::flaw::Flaw;
use super::server::{DatabaseKind, Loss};
use super::world::World;

/// The second session's clock runs faster than the first one's by as much as is allowed.
const MENU: Menu = Menu {
    kind: DatabaseKind::Postgres,
    timeouts_ms: &[6_000, 6_000],
    speeds: [1_000, 1_020, 1_000],
    before: ONE_HOLDS,
    offers: BEATS,
    failures_max: 0,
    is_pooled: false,
    is_raised: false,
    returns: None,
    endings: &[Ending::AllGoOn, Ending::FirstFallsSilent],
    flaw: None,
    depth: 4,
};

/// The first session holds, and the second one waits behind it and has seen its beat.
const ONE_HOLDS: &[Action] = &[Join(0), Join(1), Beat(0), Beat(1)];

/// The second one has seen its beat, and does not want the lock yet.
const ONE_HOLDS_ALONE: &[Action] = &[Join(0), Beat(0), Beat(1)];

/// Messages are late and lost, and a process stands still.
const BEATS: &[Action] = &[
    Beat(0),
    SendBeat(0),
    Arrive(0),
    Hear(0),
    Cut(0),
    Connect(0),
    Stop(0),
    GoOn(0),
    Beat(1),
    SendBeat(1),
    Arrive(1),
    Hear(1),
    Cut(1),
    Connect(1),
    Look(1),
    SecondPasses,
    NextComes,
];

/// Sessions join and leave over connections that are lost.
const JOINS: &[Action] = &[
    Join(0),
    SendJoin(0),
    Leave(0),
    Arrive(0),
    Hear(0),
    Cut(0),
    Connect(0),
    Join(1),
    SendJoin(1),
    Leave(1),
    SendLook(1),
    Arrive(1),
    Hear(1),
    Cut(1),
    Connect(1),
    NextComes,
];

/// The server is killed.
const CRASHES: &[Action] = &[
    Crash(Loss::Nothing),
    Crash(Loss::Last),
    Crash(Loss::LastTwo),
    Crash(Loss::All),
    Beat(0),
    Beat(1),
    Join(0),
    Leave(0),
    Connect(0),
    Join(1),
    Connect(1),
    SecondPasses,
    NextComes,
];

/// The same, and a look shows over a connection that has outlived the server what that one says now.
const PROXIED_CRASHES: &[Action] = &[
    Crash(Loss::Nothing),
    Crash(Loss::Last),
    Crash(Loss::LastTwo),
    Crash(Loss::All),
    Beat(0),
    Beat(1),
    Join(0),
    Leave(0),
    Connect(0),
    Join(1),
    Leave(1),
    Connect(1),
    Look(1),
    SecondPasses,
    NextComes,
];

/// Another server takes over that lacks a part, or the same one starts again.
const PROMOTIONS: &[Action] = &[
    Promote(Loss::Nothing),
    Promote(Loss::Last),
    Promote(Loss::LastTwo),
    Promote(Loss::All),
    Restart,
    Beat(0),
    Beat(1),
    Join(0),
    Leave(0),
    Connect(0),
    Cut(1),
    Join(1),
    Connect(1),
    SecondPasses,
    NextComes,
];

/// Older data are put back, and look complete.
const PUT_BACK: &[Action] =
    &[PutBack, Restart, Beat(0), Beat(1), Join(0), Leave(0), Connect(0), Join(1), Connect(1), SecondPasses, NextComes];

/// As that, and the holder may be away; but one that misses its place in another queue comes back.
const PUT_BACK_BEFORE_A_WITNESS: &[Action] =
    &[PutBack, Restart, Beat(0), Connect(0), Join(1), Connect(1), Beat(1), Cut(2), Connect(2), SecondPasses, NextComes];

/// Another transaction stops that holds rows.
const STOPPED: &[Action] = &[
    Hold(0),
    Hold(1),
    LetGo,
    Beat(0),
    Join(0),
    Leave(0),
    Cut(0),
    Connect(0),
    Stop(0),
    GoOn(0),
    Beat(1),
    Look(1),
    SecondPasses,
    NextComes,
];

/// The server's clock is set back, and places are lost.
const CLOCKS: &[Action] = &[
    SetClockBack,
    Crash(Loss::Last),
    Crash(Loss::All),
    Restart,
    Beat(0),
    Join(0),
    Leave(0),
    Connect(0),
    Beat(1),
    Join(1),
    Leave(1),
    Connect(1),
    NextComes,
];

/// One has settled a state that the other has begun to wait for, and holds.
const ONE_HAS_SETTLED: &[Action] = &[
    Promote(Loss::Nothing),
    Connect(0),
    SecondPasses,
    SecondPasses,
    SecondPasses,
    SecondPasses,
    Beat(0),
    Connect(1),
    Cut(1),
    NextComes,
    Join(0),
    Beat(0),
];

const SLOW_AND_FAST: Menu = Menu { speeds: [1_020, 1_000, 1_000], ..MENU };
const LATE_JOINS: Menu = Menu { before: &[], offers: JOINS, ..MENU };
const CRASHING: Menu = Menu { offers: CRASHES, failures_max: 2, ..MENU };
const ALONE: Menu = Menu { before: ONE_HOLDS_ALONE, ..CRASHING };
const POOLED: Menu = Menu { is_pooled: true, ..CRASHING };
const PROXIED: Menu = Menu { kind: DatabaseKind::LazyMariadb, offers: PROXIED_CRASHES, ..POOLED };
const PROMOTED: Menu = Menu { offers: PROMOTIONS, failures_max: 2, ..MENU };
const PROXIED_PROMOTED: Menu = Menu { kind: DatabaseKind::Mariadb, is_pooled: true, ..PROMOTED };
const UNEQUAL: Menu = Menu { timeouts_ms: &[12_000, 6_000], ..PROMOTED };
const RAISED: Menu = Menu { is_raised: true, ..UNEQUAL };
const QUICK_DEATH: Menu = Menu { timeouts_ms: &[6_000, 12_000], ..MENU };
const SETTLED: Menu = Menu { before: ONE_HAS_SETTLED, ..PROMOTED };
const RESTORED: Menu =
    Menu { offers: PUT_BACK, failures_max: 2, returns: Some(0), endings: &[Ending::AllGoOn], ..MENU };
const WITNESSED: Menu = Menu {
    timeouts_ms: &[12_000, 6_000, 12_000],
    before: &[Join(0), Join(2), Beat(0), Beat(2), Beat(1)],
    offers: PUT_BACK_BEFORE_A_WITNESS,
    failures_max: 1,
    returns: Some(2),
    ..MENU
};
const STUCK: Menu = Menu { offers: STOPPED, ..MENU };
const SET_BACK: Menu = Menu { offers: CLOCKS, failures_max: 2, ..MENU };

const fn on(kind: DatabaseKind, menu: Menu) -> Menu {
    Menu { kind, ..menu }
}

/// Each menu, and how many schedules it has to its depth and one action deeper.
const MENUS: [(Menu, usize, usize); 22] = [
    (Menu { depth: 5, ..MENU }, 53_397, 432_861),
    (SLOW_AND_FAST, 6_654, 54_832),
    (QUICK_DEATH, 6_769, 56_295),
    (LATE_JOINS, 1_462, 7_904),
    (CRASHING, 2_454, 13_204),
    (on(DatabaseKind::Mariadb, CRASHING), 958, 4_770),
    (on(DatabaseKind::LazyMariadb, CRASHING), 2_768, 16_233),
    (ALONE, 3_914, 23_521),
    (on(DatabaseKind::LazyMariadb, ALONE), 4_291, 27_797),
    (POOLED, 2_669, 14_415),
    (PROXIED, 7_098, 52_547),
    (PROMOTED, 6_165, 41_116),
    (on(DatabaseKind::Mariadb, PROMOTED), 6_165, 41_116),
    (PROXIED_PROMOTED, 7_672, 54_200),
    (UNEQUAL, 6_380, 43_912),
    (RAISED, 6_281, 42_605),
    (SETTLED, 6_916, 50_010),
    (RESTORED, 1_793, 10_111),
    (on(DatabaseKind::Mariadb, RESTORED), 1_793, 10_111),
    (WITNESSED, 2_195, 12_545),
    (STUCK, 6_563, 51_248),
    (SET_BACK, 3_119, 17_869),
];

fn play(menu: Menu) -> usize {
    explore(&World::new(menu), menu.depth).all_right()
}

fn play_each(menus: &[(Menu, usize)]) {
    play_menus(menus, play);
    let schedules: usize = menus.iter().map(|(_, schedules)| schedules).sum();
    let depths = menus.iter().map(|(menu, _)| menu.depth);
    figures::tell(&format!(
        "sessions on a failing database: {schedules} schedules in {} menus to depths of {} to {}, none wrong",
        menus.len(),
        depths.clone().min().expect("there are menus"),
        depths.max().expect("there are menus"),
    ));
}

#[test]
fn never_two_hold_in_any_schedule_of_a_failing_database() {
    play_each(&MENUS.map(|(menu, schedules, _)| (menu, schedules)));
}

#[test]
fn never_two_hold_in_any_schedule_one_action_deeper() {
    play_each(&MENUS.map(|(menu, _, schedules)| (Menu { depth: menu.depth + 1, ..menu }, schedules)));
}

#[test]
fn older_data_that_look_complete_grant_twice_if_the_holder_is_not_back_in_time() {
    let away = Menu { before: ONE_HOLDS_ALONE, returns: None, endings: &[Ending::FirstFallsSilent], ..RESTORED };
    let wrong = explore(&World::new(away), 2).wrong.expect("the promise has a condition");
    assert!(wrong.rule.contains("hold the lock"), "{wrong:?}");
}

/// Which menu finds a flaw, to which depth, and by which rule.
fn finder(flaw: Flaw) -> (Menu, usize, &'static str) {
    let removed = "was removed while it believed itself";
    let both = "hold the lock";
    match flaw {
        Flaw::ObservesFromAsking => (MENU, 3, removed),
        Flaw::LeavesMarginsOut | Flaw::DoubtsEarly => (MENU, 0, removed),
        Flaw::BelievesFromAnswers => (MENU, 5, removed),
        Flaw::LooksProve => (SLOW_AND_FAST, 5, removed),
        Flaw::ReapsAnyBeat => (QUICK_DEATH, 3, removed),
        Flaw::ReapsUnsettledByOldSights => (CRASHING, 3, removed),
        Flaw::SettlesAtOnce => (PROMOTED, 1, both),
        Flaw::HoldsWhatIsMissing => (PROMOTED, 5, both),
        Flaw::WaitsOwnTimeout => (UNEQUAL, 1, both),
        Flaw::ForgetsLongest => (RAISED, 1, both),
        Flaw::CountsForAnotherState => (SETTLED, 2, both),
        Flaw::SettlesAnyState => (WITNESSED, 4, both),
        Flaw::NeverDoubts => (WITNESSED, 2, both),
        Flaw::AbsenceProves => (PROXIED, 1, both),
        Flaw::ServesUnsettled => (Menu { is_pooled: true, ..ALONE }, 2, "was granted token"),
        Flaw::StaysInAnotherState => (PROXIED, 2, "not all had their turns"),
        Flaw::TakesCrashForCleanEnd => (ALONE, 2, both),
        Flaw::JoinsOfOldEpochs => (LATE_JOINS, 2, "not all had their turns"),
        Flaw::LeavesFloor => (SET_BACK, 2, "was granted token"),
    }
}

#[test]
fn each_wrong_rule_is_found() {
    let found = Flaw::ALL.map(|flaw| {
        let (menu, depth, rule) = finder(flaw);
        let explored = explore(&World::new(Menu { flaw: Some(flaw), ..menu }), depth);
        let wrong = explored.wrong.unwrap_or_else(|| panic!("{flaw:?} is not found"));
        assert!(wrong.rule.contains(rule), "{flaw:?}: {wrong:?}");
        format!("{flaw:?} {}", explored.schedules)
    });
    figures::tell(&format!("wrong rules of sessions on a database, found after schedules: {}", found.join(", ")));
}
