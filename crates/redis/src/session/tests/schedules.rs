//! Every schedule up to a depth: what clients believe of a lock is so, and wrong rules are found.

use lockkeeper_conformance::schedules::{ServiceModel as _, explore, play_menus};
use lockkeeper_faults::figures;
use proptest::prelude::*;

use super::client::ClientBug;
use super::service::ServerBug;
use super::world::{Excuse, Fault, Menu, World};

/// The clients' clocks are as slow as the margin allows.
const MENU: Menu = Menu {
    depth: 0,
    timeouts_s: [6, 6],
    rate: 98,
    faults: &[],
    faults_max: 0,
    waits_for_copies: false,
    excuse: Excuse::Nothing,
    client_bug: None,
    server_bug: None,
};

/// The server's clock jumps, once ahead, and the key with the service's clock may be lost. The data is kept.
const JUMPS: Menu = Menu { faults: &[Fault::JumpAhead, Fault::JumpBack, Fault::LoseClock], faults_max: 2, ..MENU };

/// The same with sessions of different timeouts.
const MIXED: Menu = Menu { timeouts_s: [6, 2], ..JUMPS };

/// The one replica is waited for, and takes over; its former primary may go on.
const COPIES: Menu = Menu { waits_for_copies: true, faults: &[Fault::FallBack, Fault::Promote], faults_max: 1, ..MENU };

/// A replica that lacks the tail takes over, or a server restarts with a part of its data or none. Two may hold until
/// the first session has run out; tokens grow.
const LOSSES: Menu =
    Menu { excuse: Excuse::AnyLoss, faults: &[Fault::FallBack, Fault::LoseAll], faults_max: 1, ..MENU };

fn play(menu: Menu) -> usize {
    explore(&World::new(menu), menu.depth).all_right()
}

fn play_and_tell(menus: &[(Menu, usize)]) {
    play_menus(menus, play);
    let schedules: usize = menus.iter().map(|(_, schedules)| schedules).sum();
    let depth = menus.iter().map(|(menu, _)| menu.depth).max().expect("there is a menu");
    figures::tell(&format!("Redis, two sessions and a lock: {schedules} schedules, up to {depth} events, none wrong"));
}

#[test]
fn no_session_is_ended_while_it_is_believed_and_no_two_hold_unless_the_service_loses_what_it_has_acknowledged() {
    play_and_tell(&[
        (Menu { depth: 9, ..MENU }, 3_090_632),
        (Menu { depth: 6, rate: 102, ..JUMPS }, 132_528),
        // Deep enough for a renewal before and behind a jump and the loss of the clock, and for a rival that calls.
        (Menu { depth: 7, ..JUMPS }, 932_040),
        (Menu { depth: 7, ..MIXED }, 932_040),
        // Deep enough for a renewal that the copy has, one that it lacks, and a promotion between them.
        (Menu { depth: 8, ..COPIES }, 3_151_864),
        (Menu { depth: 8, ..LOSSES }, 3_150_851),
    ]);
}

#[test]
fn no_session_is_ended_while_it_is_believed_in_deeper_schedules() {
    play_and_tell(&[
        (Menu { depth: 11, ..MENU }, 102_342_456),
        (Menu { depth: 9, ..JUMPS }, 44_683_916),
        (Menu { depth: 9, ..MIXED }, 44_683_916),
        (Menu { depth: 10, ..COPIES }, 143_658_078),
        (Menu { depth: 9, faults_max: 2, ..LOSSES }, 38_024_171),
    ]);
}

proptest! {
    /// Some schedules that are much longer.
    #[test]
    fn no_session_is_ended_while_it_is_believed_in_long_schedules(
        choices in proptest::collection::vec(0..1_000_000_usize, 0..120),
        menu in proptest::sample::select(vec![JUMPS, MIXED, COPIES, LOSSES]),
    ) {
        let mut world = World::new(menu);
        for choice in choices {
            let actions = world.enabled();
            let outcome = world.act(actions[choice % actions.len()]);
            prop_assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

/// Where no grant is lost, the loss of a renewal is enough: the promise is of all that the service has acknowledged.
#[test]
fn a_promotion_that_loses_a_renewal_alone_lets_two_hold() {
    let menu = Menu { depth: 9, excuse: Excuse::LostPlace, faults: &[Fault::FallBack], ..LOSSES };
    assert!(explore(&World::new(menu), menu.depth).wrong.is_some());
}

#[test]
fn a_former_primary_that_goes_on_lets_two_hold_unless_its_replica_is_waited_for() {
    let menu = Menu { depth: 6, faults: &[Fault::Promote], ..LOSSES };
    assert!(explore(&World::new(menu), menu.depth).wrong.is_some());
    let menu = Menu { waits_for_copies: true, excuse: Excuse::Nothing, ..menu };
    play(menu);
}

/// Each wrong rule, where it is looked for, and the least depth at which it is found.
const CLIENT_BUGS: &[(ClientBug, Menu, usize)] = &[
    (ClientBug::CountsFromAnswers, MENU, 7),
    (ClientBug::NoMargin, JUMPS, 1),
    (ClientBug::NoGuard, JUMPS, 1),
    (ClientBug::RefusalsRenew, LOSSES, 2),
    (ClientBug::CountsWithoutCopies, COPIES, 9),
    (ClientBug::IgnoresMissing, LOSSES, 4),
];

const SERVER_BUGS: &[(ServerBug, Menu, usize)] = &[
    (ServerBug::TrustsClock, JUMPS, 1),
    (ServerBug::TakesGreatestGuard, MIXED, 1),
    (ServerBug::EndsEarly, MENU, 1),
    (ServerBug::KeepsTheDead, MENU, 1),
    (ServerBug::BeginsClockLate, JUMPS, 2),
    (ServerBug::CountsTokens, LOSSES, 2),
    (ServerBug::ForgetsTokens, JUMPS, 2),
];

#[test]
fn every_wrong_rule_is_found() {
    let of_clients = CLIENT_BUGS.iter().map(|&(bug, menu, depth)| Menu { depth, client_bug: Some(bug), ..menu });
    let of_servers = SERVER_BUGS.iter().map(|&(bug, menu, depth)| Menu { depth, server_bug: Some(bug), ..menu });
    let found = of_clients.chain(of_servers).map(|menu| {
        let bug = menu.client_bug.map(|bug| format!("{bug:?}"));
        let bug = bug.or_else(|| menu.server_bug.map(|bug| format!("{bug:?}"))).expect("one is planted");
        let explored = explore(&World::new(menu), menu.depth);
        assert!(explored.wrong.is_some(), "{bug} is not found in {} schedules", explored.schedules);
        format!("{bug} {} (depth {})", explored.schedules, menu.depth)
    });
    let found: Vec<_> = found.collect();
    figures::tell(&format!("Redis, wrong rules and the schedules until found: {}", found.join(", ")));
}
