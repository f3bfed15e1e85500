//! Every schedule up to a depth: no lease is revoked while its client believes in it, and wrong rules are found.

use lockkeeper_conformance::schedules::{ServiceModel as _, explore, play_menus};
use lockkeeper_faults::figures;
use proptest::prelude::*;

use super::client::ClientBug;
use super::leaders::ServerBug;
use super::world::{Menu, World};

/// The client's clock is as slow as the margin allows.
const MENU: Menu =
    Menu { depth: 0, connections: 1, members: 1, elections_max: 2, rate: 98, client_bug: None, server_bug: None };

/// The same over two connections to different members, whose answers overtake each other.
const TWO_CONNECTIONS: Menu = Menu { connections: 2, members: 2, ..MENU };

/// The same where both lead to one member, so that either proves what the other has renewed.
const ONE_MEMBER: Menu = Menu { members: 1, ..TWO_CONNECTIONS };

const FAST: Menu = Menu { rate: 102, ..MENU };

fn play(menu: Menu) -> usize {
    explore(&World::new(menu), menu.depth).all_right()
}

fn play_and_tell(menus: &[(Menu, usize)]) {
    play_menus(menus, play);
    let schedules: usize = menus.iter().map(|(_, schedules)| schedules).sum();
    let depth = menus.iter().map(|(menu, _)| menu.depth).max().expect("there is a menu");
    figures::tell(&format!("etcd, one lease and its leaders: {schedules} schedules, up to {depth} events, none wrong"));
}

#[test]
fn no_lease_is_revoked_while_it_is_believed() {
    play_and_tell(&[
        // Deep enough for a renewal and its witness around an election, with a moment between any two of them.
        (Menu { depth: 10, ..MENU }, 105_900_781),
        (Menu { depth: 8, ..FAST }, 2_090_845),
        (Menu { depth: 8, ..TWO_CONNECTIONS }, 25_175_841),
        (Menu { depth: 8, ..ONE_MEMBER }, 9_224_763),
    ]);
}

#[test]
fn no_lease_is_revoked_while_it_is_believed_in_deeper_schedules() {
    play_and_tell(&[
        // Deep enough for two elections and two renewals, each with its witness.
        (Menu { depth: 12, ..MENU }, 5_326_061_668),
        (Menu { depth: 10, ..TWO_CONNECTIONS }, 2_335_520_937),
    ]);
}

proptest! {
    /// Some schedules that are much longer.
    #[test]
    fn no_lease_is_revoked_while_it_is_believed_in_long_schedules(
        choices in proptest::collection::vec(0..1_000_000_usize, 0..120),
    ) {
        let mut world = World::new(Menu { elections_max: 10, ..TWO_CONNECTIONS });
        for choice in choices {
            let actions = world.enabled();
            let outcome = world.act(actions[choice % actions.len()]);
            prop_assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

/// Each wrong rule, with the least depth at which it is found.
const CLIENT_BUGS: &[(ClientBug, usize)] = &[
    (ClientBug::AnswersProve, 6),
    (ClientBug::LaterTermsProve, 8),
    (ClientBug::EarlierRequestsProve, 9),
    (ClientBug::MembersProve, 9),
    (ClientBug::CountsFromAnswers, 5),
    (ClientBug::CountsFromProofs, 6),
    (ClientBug::NoMargin, 4),
    (ClientBug::RefusalsRenew, 6),
    (ClientBug::NothingProves, 1),
];

const SERVER_BUGS: &[(ServerBug, usize)] =
    &[(ServerBug::OldLeaderRevokes, 6), (ServerBug::PromotesWithoutTime, 4), (ServerBug::OldLeaderConfirms, 9)];

#[test]
fn every_wrong_rule_is_found() {
    let of_clients = CLIENT_BUGS.iter().map(|&(bug, depth)| Menu { depth, client_bug: Some(bug), ..MENU });
    let of_servers = SERVER_BUGS.iter().map(|&(bug, depth)| Menu { depth, server_bug: Some(bug), ..MENU });
    let found = of_clients.chain(of_servers).map(|menu| {
        let bug = menu.client_bug.map(|bug| format!("{bug:?}"));
        let bug = bug.or_else(|| menu.server_bug.map(|bug| format!("{bug:?}"))).expect("one is planted");
        let explored = explore(&World::new(menu), menu.depth);
        assert!(explored.wrong.is_some(), "{bug} is not found in {} schedules", explored.schedules);
        format!("{bug} {} (depth {})", explored.schedules, menu.depth)
    });
    let found: Vec<_> = found.collect();
    figures::tell(&format!("etcd, wrong rules and the schedules until found: {}", found.join(", ")));
}
