//! Tests of the holders that an onlooker sees.

use lockkeeper_core::{ContenderInfo, FencingToken, Mode};

use crate::decide::tests::queues::*;
use crate::decide::*;

/// Shows a queue to an operator; each contender at a separate place, except those that stand beside the one before
/// them.
fn shown(modes: &[Mode], beside: usize) -> Vec<ContenderInfo> {
    let mut grant = 0;
    let info = |(at, &mode): (usize, &Mode)| {
        if beside & (1 << at) == 0 {
            grant += 1;
        }
        let mut info = ContenderInfo::new(id(at), mode);
        info.token = FencingToken::new(grant, 0);
        info
    };
    modes.iter().enumerate().map(info).collect()
}

/// In each queue of one kind, an onlooker sees as holders the contenders that were granted.
#[test]
fn the_holders_that_an_onlooker_sees_are_those_that_were_granted() {
    for kind in KINDS.iter().filter(|(_, asked, ..)| *asked != Mode::Acquire) {
        let &(_, asked, _, same_kind) = kind;
        for_every_queue_of(same_kind, |modes| {
            let view = view_for(kind, modes);
            let granted = (0..modes.len())
                .map(|me| decide(asked_by(asked, modes[me]), &id(me), &view) == Decision::Granted)
                .collect::<Vec<_>>();
            assert_eq!(holders(&shown(modes, 0)), granted, "{modes:?}");
        });
    }
    // A waiter for permits holds nothing yet.
    assert_eq!(
        holders(&shown(&[Mode::Permit, Mode::Permit, Mode::Acquire, Mode::Acquire], 0)),
        [true, true, false, false]
    );
}

/// Places beside: readers share the fate of the writer that they stand behind, at every place.
#[test]
fn a_reader_beside_a_writer_holds_exactly_as_long_as_the_writer() {
    let mut checked = 0;
    for_every_queue_of(&[Mode::Read, Mode::Write], |modes| {
        for beside in 1..1_usize << modes.len() {
            // Only readers stand beside, and only behind a writer or another such reader.
            let is_legal = (0..modes.len()).filter(|at| beside & (1 << at) != 0).all(|at| {
                let before = at.checked_sub(1);
                modes[at] == Mode::Read
                    && before.is_some_and(|before| modes[before] == Mode::Write || beside & (1 << before) != 0)
            });
            if !is_legal {
                continue;
            }
            checked += 1;
            let seen = holders(&shown(modes, beside));
            for at in (0..modes.len()).filter(|at| beside & (1 << at) != 0) {
                assert_eq!(seen[at], seen[at - 1], "{at} in {modes:?} with {beside:b}");
            }
        }
    });
    assert!(checked > 100, "{checked} queues are too few");
}

/// Two holders at the same time never exclude one another, except a reader in its own writer's place.
#[test]
fn no_two_holders_of_one_queue_exclude_one_another() {
    for (.., same_kind) in KINDS {
        for_every_queue_of(same_kind, |modes| {
            let holding: Vec<Mode> = holders(&shown(modes, 0))
                .into_iter()
                .zip(modes)
                .filter(|(holds, _)| *holds)
                .map(|(_, &mode)| mode)
                .collect();
            for (at, &one) in holding.iter().enumerate() {
                for &other in &holding[at + 1..] {
                    assert!(!exclude(one, other), "{holding:?} hold in {modes:?}");
                }
            }
        });
    }
}
