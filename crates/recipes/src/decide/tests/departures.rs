//! Tests of departures: what one proves, and whose wait it ends.

use lockkeeper_core::{ConnectionNumber, Contender, ContenderId, Mode, MutexRole, QueueView};

use crate::decide::tests::queues::*;
use crate::decide::*;

/// A mutex is handed on, and a share granted, without a second look; that is the purpose of the promise.
#[test]
fn the_departure_of_the_only_one_ahead_is_said_to_grant_wherever_no_other_can_take_its_place() {
    for asked in [Mode::Mutex, Mode::Acquire, Mode::Candidate] {
        let second = decide(asked, &id(1), &view(&[asked, asked, asked]));
        assert_eq!(second, Decision::WaitFor { ahead: id(0), departure_grants: true });
        let third = decide(asked, &id(2), &view(&[asked, asked, asked]));
        assert_eq!(third, Decision::WaitFor { ahead: id(1), departure_grants: false });
    }
    for alone in [Mode::Write, Mode::Mutex] {
        let reader = decide(Mode::Read, &id(2), &view(&[alone, Mode::Read, Mode::Read]));
        assert_eq!(reader, Decision::WaitFor { ahead: id(0), departure_grants: true });
    }
    let behind_a_mutex = decide(Mode::Write, &id(1), &view(&[Mode::Mutex, Mode::Write, Mode::Read]));
    assert_eq!(behind_a_mutex, Decision::WaitFor { ahead: id(0), departure_grants: true });
}

/// Goes through each contender of every queue of a kind, as far as it may ask for what the kind asks for.
fn for_everyone_that_asks(mut check: impl FnMut(&Kind, &[Mode], usize)) {
    for kind in &KINDS {
        let &(_, _, shown_as, same_kind) = kind;
        for_every_queue_of(same_kind, |modes| {
            // Of four kinds of contenders two behind us are enough: each one more takes ten times as long.
            if same_kind == ONE_LOCK && modes.len() > 4 {
                return;
            }
            for me in (0..modes.len()).filter(|&me| shown_as.contains(&modes[me])) {
                check(kind, modes, me);
            }
        });
    }
}

/// Lets each contender depart whose departure is said to grant, with every set of others, after every join that can
/// come meanwhile: a reader beside each writer, and one more of its kind at the tail.
#[test]
fn a_departure_that_is_said_to_grant_does_grant_after_any_joins_and_departures_meanwhile() {
    let mut promises = 0;
    for_everyone_that_asks(|kind, modes, me| {
        let (asked, before) = (kind.1, view_for(kind, modes));
        if let Decision::WaitFor { ahead, departure_grants: true } = decide(asked, &id(me), &before) {
            promises += 1;
            for evolved in evolutions(&before, modes, me, &ahead) {
                let decision = decide(asked, &id(me), &evolved);
                assert_eq!(decision, Decision::Granted, "{me} asks for a {asked} in {modes:?}: {evolved:?}");
            }
        }
    });
    assert!(promises > 500, "{promises} promises are too few");
}

/// As above, for one that was not the first when it was seen, and is known to have become so: none of those ahead of
/// it, and none that stood beside them, is left.
#[test]
fn the_departure_of_one_that_became_the_first_does_grant_where_it_is_said_to() {
    let mut promises = 0;
    for_everyone_that_asks(|kind, modes, me| {
        let (asked, seen) = (kind.1, view_for(kind, modes));
        let Decision::WaitFor { ahead, .. } = decide(asked, &id(me), &seen) else {
            return;
        };
        let first = seen.position(&ahead).unwrap();
        if first > 0 && departure_of_first_grants(asked, &ahead, &seen) {
            promises += 1;
            let (left, me) = (&modes[first..], me - first);
            for evolved in evolutions(&view_for(kind, left), left, me, &id(0)) {
                let decision = decide(asked, &id(me), &evolved);
                assert_eq!(decision, Decision::Granted, "{me} asks for a {asked} in {left:?}: {evolved:?}");
            }
        }
    });
    assert!(promises > 500, "{promises} promises are too few");
}

/// As above, for a writer behind readers alone: once all of these have left, whatever joined meanwhile.
#[test]
fn the_departures_of_all_readers_ahead_grant_a_writer_where_they_are_said_to() {
    let mut promises = 0;
    for_everyone_that_asks(|kind, modes, me| {
        let (asked, before) = (kind.1, view_for(kind, modes));
        let Some(readers) = readers_ahead(asked, &id(me), &before, CONTENDERS_MAX).filter(|_| me > 0) else {
            return;
        };
        assert_eq!(readers.len(), me, "all that are ahead");
        promises += 1;
        let have_left = |view: &QueueView| readers.iter().all(|reader| view.position(&reader.id).is_none());
        for evolved in evolutions(&before, modes, me, &id(0)).into_iter().filter(have_left) {
            let decision = decide(asked, &id(me), &evolved);
            assert_eq!(decision, Decision::Granted, "{me} asks for a {asked} in {modes:?}: {evolved:?}");
        }
    });
    assert!(promises > 100, "{promises} promises are too few");
}

#[test]
fn nothing_is_said_of_more_readers_than_are_remembered_nor_of_queues_that_are_not_shown_whole() {
    let queue = view(&[Mode::Read, Mode::Read, Mode::Write]);
    assert_eq!(readers_ahead(Mode::Write, &id(2), &queue, 2).map(<[Contender]>::len), Some(2));
    assert!(readers_ahead(Mode::Write, &id(2), &queue, 1).is_none());
    assert!(readers_ahead(Mode::Read, &id(1), &queue, 2).is_none(), "a reader waits for no other");
    assert!(readers_ahead(Mode::Write, &id(2), &changed(queue.clone(), |view| view.omitted = 1), 2).is_none());
    assert!(
        readers_ahead(Mode::Write, &id(2), &changed(queue, |view| view.elsewhere = Some(Mode::Permit)), 2).is_none()
    );
}

/// Returns what a queue may have become once `ahead` has left, with `me` still in it.
fn evolutions(before: &QueueView, modes: &[Mode], me: usize, ahead: &ContenderId) -> Vec<QueueView> {
    let is_writer = |mode: Mode| matches!(mode, Mode::Write | Mode::Exclusive);
    let writers: Vec<usize> = (0..modes.len()).filter(|&at| is_writer(modes[at])).collect();
    let mut evolved = Vec::new();
    for beside in 0..1_usize << writers.len() {
        let mut joined = Vec::new();
        for (at, &mode) in modes.iter().enumerate() {
            joined.push(contender(at, mode));
            let writer = writers.iter().position(|&writer| writer == at);
            if writer.is_some_and(|writer| beside & (1 << writer) != 0) && reads_beside(before) {
                joined.push(contender(100 + at, Mode::Read));
            }
        }
        for gone in 0..1_usize << modes.len() {
            let stays = |contender: &&Contender| {
                contender.id != *ahead
                    && (0..modes.len()).all(|at| at == me || gone & (1 << at) == 0 || contender.id != id(at))
            };
            let left: Vec<Contender> = joined.iter().filter(stays).cloned().collect();
            for tail in modes {
                let mut left = left.clone();
                left.push(contender(200, *tail));
                evolved.push(changed(before.clone(), |view| view.contenders = left.into()));
            }
        }
    }
    evolved
}

/// Where the two are strangers, a queue that shows a mutex belongs to no read/write lock.
fn reads_beside(view: &QueueView) -> bool {
    view.mutex_role == MutexRole::Writer || !view.contenders.iter().any(|other| other.mode == Mode::Mutex)
}

/// The case in which a departure grants a mutex nothing: the contender was, or may have been, a write lock's, and
/// leaves a share.
#[test]
fn behind_one_that_may_be_a_writer_nothing_is_granted_without_another_look() {
    for (asked, ahead) in [
        (Mode::Mutex, Mode::Exclusive),
        (Mode::Mutex, Mode::Write),
        (Mode::Write, Mode::Write),
        (Mode::Write, Mode::Exclusive),
        (Mode::Mutex, Mode::Read),
        (Mode::Write, Mode::Read),
    ] {
        let waiting = decide(asked, &id(1), &view(&[ahead, asked]));
        assert_eq!(waiting, Decision::WaitFor { ahead: id(0), departure_grants: false }, "{asked} behind {ahead}");
    }
    let share_left = QueueView::new(ConnectionNumber(1), [contender(9, Mode::Read), contender(1, Mode::Exclusive)]);
    let waits_on = Decision::WaitFor { ahead: id(9), departure_grants: false };
    assert_eq!(decide(Mode::Mutex, &id(1), &share_left), waits_on);
    let on_a_shared_path = changed(share_left, |view| view.mutex_role = MutexRole::Stranger);
    assert_eq!(decide(Mode::Mutex, &id(1), &on_a_shared_path), Decision::KindMismatch { found: Mode::Read });
}

/// In each queue of one kind, lets each contender depart and checks whose wait that ends.
///
/// The bounds: of an exclusive kind, only the contender just behind. Of a read/write lock, either the one writer just
/// behind, or, behind a writer, the readers up to the next writer. All of them can go then, except in two cases: of
/// several readers that hold, the last one in line leaves before others, and the one writer behind it looks again; or a
/// contender leaves that only waited while others hold, and those just behind it look again.
#[test]
fn a_departure_ends_the_wait_of_those_just_behind_and_in_vain_only_where_others_still_hold() {
    for kind in &KINDS {
        let &(_, asked_kind, _, same_kind) = kind;
        for_every_queue_of(same_kind, |modes| {
            let before = view_for(kind, modes);
            for gone in 0..modes.len() {
                let woken = woken_by(gone, asked_kind, &before);
                let after: Vec<_> = before.contenders.iter().filter(|other| other.id != id(gone)).cloned().collect();
                let after = changed(before.clone(), |view| view.contenders = after.into());
                let shows = format!("{gone} leaves {modes:?}, which wakes {woken:?}");
                let in_vain = woken
                    .iter()
                    .filter(|&&me| decide(asked_by(asked_kind, modes[me]), &id(me), &after) != Decision::Granted);
                let in_vain = in_vain.count();
                let held = decide(asked_by(asked_kind, modes[gone]), &id(gone), &before) == Decision::Granted;
                check_woken(modes, gone, &woken, &shows);
                match (held, modes[gone]) {
                    (true, Mode::Read) => assert!(in_vain <= 1, "{shows}"),
                    (true, _) => assert_eq!(in_vain, 0, "{shows}"),
                    (false, _) => assert!(in_vain == 0 || in_vain == woken.len(), "{shows}: it did not hold"),
                }
            }
        });
    }
}

fn woken_by(gone: usize, kind: Mode, before: &QueueView) -> Vec<usize> {
    let waits = |me: &usize| {
        let asked = asked_by(kind, before.contenders[*me].mode);
        matches!(decide(asked, &id(*me), before), Decision::WaitFor { ahead, .. } if ahead == id(gone))
    };
    (0..before.contenders.len()).filter(waits).collect()
}

fn check_woken(modes: &[Mode], gone: usize, woken: &[usize], shows: &str) {
    let are_readers = |woken: &[usize]| woken.iter().all(|&me| modes[me] == Mode::Read);
    match modes.get(gone + 1) {
        None => assert_eq!(woken, [0; 0], "{shows}"),
        Some(_) if matches!(modes[gone], Mode::Permit | Mode::Member) => assert_eq!(woken, [0; 0], "{shows}"),
        Some(Mode::Read) if modes[gone] == Mode::Read => assert_eq!(woken, [0; 0], "{shows}"),
        Some(Mode::Read) => {
            let run = modes[gone + 1..].iter().take_while(|&&mode| mode == Mode::Read).count();
            assert!(are_readers(woken) && woken.len() == run, "{shows}");
        }
        Some(_) => assert_eq!(woken, [gone + 1], "{shows}"),
    }
}
