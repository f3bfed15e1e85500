//! The decision in each queue, against the second definition.

use lockkeeper_core::Mode;

use crate::decide::tests::queues::*;
use crate::decide::*;

#[test]
fn in_every_queue_of_up_to_six_contenders_of_all_kinds_the_decision_is_the_models() {
    let checked = for_every_queue_of(&MODES, |modes| {
        let views = KINDS.each_ref().map(|kind| (kind, view_for(kind, modes)));
        for (me, &shown) in modes.iter().enumerate() {
            for ((role, asked, _, same_kind), view) in
                views.iter().filter(|((.., shown_as, _), _)| shown_as.contains(&shown))
            {
                let decision = decide(*asked, &id(me), view);
                let agrees = match (model(*asked, same_kind, me, modes), &decision) {
                    (Model::Holds, Decision::Granted) => true,
                    (Model::Mismatch(expected), Decision::KindMismatch { found }) => expected == *found,
                    (Model::WaitsFor { nearest, only }, Decision::WaitFor { ahead, departure_grants }) => {
                        // Whether a departure may grant is tested below; it must not where a second excluding contender
                        // is ahead.
                        *ahead == id(nearest) && (only || !departure_grants)
                    }
                    _ => false,
                };
                assert!(agrees, "{me} asks for a {asked} in {modes:?} where a mutex is a {role:?}: {decision:?}");
            }
        }
    });
    assert_eq!(checked, QUEUES);
}

#[test]
fn a_contender_that_is_not_in_the_queue_is_never_granted() {
    for_every_queue_of(&[Mode::Mutex, Mode::Read, Mode::Member], |modes| {
        for asked in MODES {
            assert_eq!(decide(asked, &id(modes.len()), &view(modes)), Decision::NotInQueue);
        }
    });
    assert_eq!(decide(Mode::Mutex, &id(0), &view(&[])), Decision::NotInQueue);
}

/// A contender that only looks before it joins gets the decision that it would get as the last in line.
#[test]
fn a_lock_is_free_for_a_contender_that_would_be_granted_at_the_tail_and_of_another_kind_likewise() {
    for kind in &KINDS {
        let &(_, asked, shown_as, _) = kind;
        for &shown in shown_as {
            for_every_queue_of(&MODES, |modes| {
                if modes.len() == CONTENDERS_MAX {
                    return;
                }
                let (before, me) = (view_for(kind, modes), modes.len());
                let joined = view_for(kind, &[modes, &[shown]].concat());
                match decide(asked, &id(me), &joined) {
                    Decision::KindMismatch { found } => {
                        assert_eq!(kind_mismatch(asked, &before), Some(found), "{asked} in {modes:?}");
                    }
                    decision => {
                        assert_eq!(kind_mismatch(asked, &before), None, "{asked} in {modes:?}");
                        assert_eq!(is_free(asked, &before), decision == Decision::Granted, "{asked} in {modes:?}");
                    }
                }
            });
        }
        assert!(is_free(asked, &view(&[])));
        assert_eq!(kind_mismatch(asked, &view(&[])), None);
    }
}

/// A contender in another part of the lock decides before all else, for every mode, and for the first in line too.
#[test]
fn a_contender_elsewhere_is_a_mismatch_for_every_mode() {
    for kind in &KINDS {
        let &(_, asked, shown_as, _) = kind;
        for (&shown, elsewhere) in shown_as.iter().zip(MODES.into_iter().cycle()) {
            let view = changed(view_for(kind, &[shown, shown]), |view| view.elsewhere = Some(elsewhere));
            for me in 0..2 {
                assert_eq!(decide(asked, &id(me), &view), Decision::KindMismatch { found: elsewhere });
            }
            assert_eq!(kind_mismatch(asked, &view), Some(elsewhere));
            assert_eq!(permits(1, 10, &view), PermitsDecision::KindMismatch { found: elsewhere });
        }
    }
}

#[test]
fn permits_fit_exactly_while_there_are_not_more_than_the_bound_with_them() {
    for taken in 0..=CONTENDERS_MAX {
        let view = view(&vec![Mode::Permit; taken]);
        for wanted in 0..=8_u32 {
            for bound in 0..=8_u32 {
                let expected = if taken as u64 + u64::from(wanted) <= u64::from(bound) {
                    PermitsDecision::Fit
                } else {
                    PermitsDecision::WaitForChange
                };
                assert_eq!(permits(wanted, bound, &view), expected, "{taken} + {wanted} of {bound}");
            }
        }
        let too_many = if taken == 0 { PermitsDecision::Fit } else { PermitsDecision::WaitForChange };
        assert_eq!(permits(u32::MAX, u32::MAX, &view), too_many);
    }
}

/// Every contender there counts as a permit, in any mode.
#[test]
fn of_permits_everything_counts() {
    for mode in MODES {
        assert_eq!(permits(1, 2, &view(&[mode, Mode::Permit])), PermitsDecision::WaitForChange);
    }
}
