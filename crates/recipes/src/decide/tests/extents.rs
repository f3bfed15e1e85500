//! A view that leaves contenders out decides as the whole one does.

use lockkeeper_core::{Mode, QueueView};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::decide::tests::queues::*;
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
        let &(_, asked, shown_as, same_kind) = kind;
        for_every_queue_of(same_kind, |modes| {
            // Twice as long, so that there is something to leave out; of four kinds of contenders eight are enough.
            if same_kind == ONE_LOCK && modes.len() > 4 {
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
        let &(_, asked, shown_as, same_kind) = kind;
        let strangers = MODES.into_iter().filter(|mode| !same_kind.contains(mode));
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
        let &(_, asked, _, same_kind) = kind;
        for_every_queue_of(same_kind, |modes| {
            let whole = view_for(kind, modes);
            let around = whole.clone().around(None);
            assert_eq!(is_free(asked, &whole), is_free(asked, &around), "{asked} in {modes:?}");
            assert_eq!(kind_mismatch(asked, &whole).is_some(), kind_mismatch(asked, &around).is_some());
        });
    }
}

/// Queues of one lock, with a few of other kinds in some of them.
fn some_queue() -> impl Strategy<Value = Vec<Mode>> {
    let same_kind = prop::sample::select(&KINDS[..]).prop_map(|(_, _, _, same_kind)| same_kind);
    let strangers = prop::collection::vec((any::<Index>(), prop::sample::select(&MODES[..])), 0..3);
    let queue = same_kind.prop_flat_map(|same_kind| prop::collection::vec(prop::sample::select(same_kind), 1..300));
    (queue, prop_oneof![3 => Just(Vec::new()), 1 => strangers]).prop_map(|(mut queue, strangers)| {
        for (at, stranger) in strangers {
            queue.insert(at.index(queue.len() + 1), stranger);
        }
        queue
    })
}

proptest! {
    /// Long queues, of modes in any mixture, with shares that stand anywhere, and with contenders of other kinds.
    #[test]
    fn a_view_around_a_place_in_a_long_queue_decides_for_each_mode_as_the_whole_queue_does(
        modes in some_queue(), place: Index,
    ) {
        let me = place.index(modes.len());
        for kind in &KINDS {
            let whole = view_for(kind, &modes);
            assert_decides_alike(kind.1, me, &whole);
            let tail = whole.clone().around(None);
            prop_assert_eq!(is_free(kind.1, &whole), is_free(kind.1, &tail));
            prop_assert_eq!(kind_mismatch(kind.1, &whole).is_some(), kind_mismatch(kind.1, &tail).is_some());
        }
    }
}
