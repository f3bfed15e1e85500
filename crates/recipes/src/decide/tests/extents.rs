//! A view that leaves contenders out decides as the whole one does.

use lockkeeper_core::{Mode, QueueView};

use super::queues::*;
use crate::decide::*;

/// Compares all that is decided for one place, and how many stand ahead of it.
fn assert_decides_alike(asked: Mode, me: usize, whole: &QueueView) -> usize {
    let me = id(me);
    let around = whole.clone().around(Some(&me));
    let decision = decide(asked, &me, whole);
    match (&decision, decide(asked, &me, &around)) {
        // Which of several contenders of other kinds is named does not matter.
        (Decision::KindMismatch { .. }, Decision::KindMismatch { .. }) => {}
        (decision, seen) => assert_eq!(*decision, seen, "{me} asks for a {asked} in {whole:?}"),
    }
    if let Decision::WaitFor { ahead, .. } = &decision {
        let by_whole = departure_of_first_grants(asked, ahead, whole);
        assert_eq!(by_whole, departure_of_first_grants(asked, ahead, &around), "{me} asks for a {asked} in {whole:?}");
    }
    assert_eq!(whole.position(&me), around.ahead_of(&me), "{me} in {whole:?}");
    assert_eq!(whole.contenders.first(), around.contenders.first());
    around.omitted
}

#[test]
fn a_view_around_a_place_decides_for_it_as_the_whole_queue_does() {
    let mut omitted = 0;
    for kind in &KINDS {
        let &(_, asked, shown_as, friends) = kind;
        for_every_queue_of(friends, |modes| {
            // Twice as long, so that there is something to leave out; of four kinds of contenders eight are enough.
            if friends == ONE_LOCK && modes.len() > 4 {
                return;
            }
            let modes = &modes.repeat(2);
            for me in (0..modes.len()).filter(|&me| shown_as.contains(&modes[me])) {
                omitted += assert_decides_alike(asked, me, &view_for(kind, modes));
            }
        });
    }
    assert!(omitted > 10_000, "{omitted} contenders left out are too few");
}

#[test]
fn a_contender_of_another_kind_is_seen_wherever_it_stands() {
    for kind in &KINDS {
        let &(_, asked, shown_as, friends) = kind;
        let strangers = MODES.into_iter().filter(|mode| !friends.contains(mode));
        for stranger in strangers {
            for at in 0..8 {
                let mut modes = vec![shown_as[0]; 8];
                modes.insert(at, stranger);
                for me in (0..modes.len()).filter(|&me| me != at) {
                    assert_decides_alike(asked, me, &view_for(kind, &modes));
                }
            }
        }
    }
}

#[test]
fn a_view_around_the_tail_shows_whether_one_that_joins_now_is_granted_at_once() {
    for kind in &KINDS {
        let &(_, asked, _, friends) = kind;
        for_every_queue_of(friends, |modes| {
            let whole = view_for(kind, modes);
            let around = whole.clone().around(None);
            assert_eq!(is_free(asked, &whole), is_free(asked, &around), "{asked} in {modes:?}");
            assert_eq!(kind_mismatch(asked, &whole).is_some(), kind_mismatch(asked, &around).is_some());
        });
    }
}
