//! The decisions in every queue of up to six contenders, against a second definition that is a table.

use super::*;
use lockkeeper_core::FencingToken;
use lockkeeper_core::{Contender, Version};

/// The most contenders of an exhaustively checked queue.
const CONTENDERS_MAX: usize = 6;

const MODES: [Mode; 8] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive, Mode::Gate, Mode::Permit, Mode::Candidate, Mode::Member];

/// All queues of up to six contenders of eight modes: 8 + 64 + … + 262,144.
const QUEUES: usize = 8 + 64 + 512 + 4_096 + 32_768 + 262_144;

/// The role of a mutex in the queue, what may be asked for, what services may show it as, and what else may stand in
/// the same queue.
type Kind = (MutexRole, Mode, &'static [Mode], &'static [Mode]);

/// All modes that may stand in the queue of a name of our own that is a mutex and a read/write lock.
const ONE_LOCK: &[Mode] = &[Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive];

const MUTEX_SHOWN: &[Mode] = &[Mode::Mutex, Mode::Exclusive];

const WRITE_SHOWN: &[Mode] = &[Mode::Write, Mode::Exclusive];

const KINDS: [Kind; 12] = [
    // On names of our own.
    (MutexRole::Writer, Mode::Mutex, MUTEX_SHOWN, ONE_LOCK),
    (MutexRole::Writer, Mode::Read, &[Mode::Read], ONE_LOCK),
    (MutexRole::Writer, Mode::Write, WRITE_SHOWN, ONE_LOCK),
    // On paths that are shared with clients for which the two are different kinds.
    (MutexRole::Stranger, Mode::Mutex, MUTEX_SHOWN, MUTEX_SHOWN),
    (MutexRole::Stranger, Mode::Read, &[Mode::Read], &[Mode::Read, Mode::Write, Mode::Exclusive]),
    (MutexRole::Stranger, Mode::Write, WRITE_SHOWN, &[Mode::Read, Mode::Write, Mode::Exclusive]),
    // An election that is laid out as a mutex.
    (MutexRole::Writer, Mode::Candidate, MUTEX_SHOWN, ONE_LOCK),
    (MutexRole::Stranger, Mode::Candidate, MUTEX_SHOWN, MUTEX_SHOWN),
    // For the others it makes no difference.
    (MutexRole::Writer, Mode::Candidate, &[Mode::Candidate], &[Mode::Candidate]),
    (MutexRole::Writer, Mode::Gate, &[Mode::Gate], &[Mode::Gate]),
    (MutexRole::Writer, Mode::Permit, &[Mode::Permit], &[Mode::Permit]),
    (MutexRole::Writer, Mode::Member, &[Mode::Member], &[Mode::Member]),
];

/// Which two may not hold at the same time, whichever of them came first.
const EXCLUDING: [(Mode, Mode); 15] = [
    (Mode::Mutex, Mode::Mutex),
    (Mode::Mutex, Mode::Read),
    (Mode::Mutex, Mode::Write),
    (Mode::Mutex, Mode::Exclusive),
    (Mode::Exclusive, Mode::Exclusive),
    (Mode::Exclusive, Mode::Read),
    (Mode::Exclusive, Mode::Write),
    (Mode::Write, Mode::Read),
    (Mode::Write, Mode::Write),
    (Mode::Gate, Mode::Gate),
    (Mode::Candidate, Mode::Candidate),
    // Of an election that is laid out as a mutex.
    (Mode::Candidate, Mode::Mutex),
    (Mode::Candidate, Mode::Read),
    (Mode::Candidate, Mode::Write),
    (Mode::Candidate, Mode::Exclusive),
];

fn exclude(one: Mode, other: Mode) -> bool {
    EXCLUDING.contains(&(one, other)) || EXCLUDING.contains(&(other, one))
}

fn id(number: usize) -> ContenderId {
    ContenderId::new(number.to_string())
}

fn contender(number: usize, mode: Mode) -> Contender {
    Contender { id: id(number), ticket: None, mode }
}

/// Returns the view with a change.
fn changed(mut view: QueueView, change: impl FnOnce(&mut QueueView)) -> QueueView {
    change(&mut view);
    view
}

fn view(modes: &[Mode]) -> QueueView {
    let contenders = modes.iter().enumerate().map(|(number, &mode)| contender(number, mode));
    QueueView::new(Version(1), contenders.collect::<Vec<_>>())
}

/// Shows a queue of these modes to a contender of a kind.
fn view_for((mutex_role, asked, shown_as, _): &Kind, modes: &[Mode]) -> QueueView {
    // In each of them, its only effect is that it stands for a mutex.
    let candidate = if *asked == Mode::Candidate { shown_as[0] } else { Mode::Candidate };
    changed(view(modes), |view| (view.mutex_role, view.candidate) = (*mutex_role, candidate))
}

/// Calls `check` with every sequence of these modes of up to six contenders, and returns how many there were.
fn for_every_queue_of(modes: &[Mode], mut check: impl FnMut(&[Mode])) -> usize {
    let mut queue = Vec::with_capacity(CONTENDERS_MAX);
    let mut checked = 0;
    extend_every_way(modes, &mut queue, &mut |queue| {
        check(queue);
        checked += 1;
    });
    checked
}

fn extend_every_way(modes: &[Mode], queue: &mut Vec<Mode>, check: &mut dyn FnMut(&[Mode])) {
    for &mode in modes {
        queue.push(mode);
        check(queue);
        if queue.len() < CONTENDERS_MAX {
            extend_every_way(modes, queue, check);
        }
        queue.pop();
    }
}

/// The second definition: in a queue of one kind a contender holds if none ahead excludes it, and otherwise waits for
/// the last one that does.
fn model(asked: Mode, friends: &[Mode], me: usize, modes: &[Mode]) -> Model {
    if let Some(&found) = modes.iter().find(|mode| !friends.contains(mode)) {
        return Model::Mismatch(found);
    }
    let ahead: Vec<usize> = (0..me).filter(|&other| exclude(asked, modes[other])).collect();
    match ahead.last() {
        None => Model::Holds,
        Some(&nearest) => Model::WaitsFor { nearest, only: ahead.len() == 1 },
    }
}

#[derive(Debug)]
enum Model {
    Holds,
    WaitsFor { nearest: usize, only: bool },
    Mismatch(Mode),
}

#[test]
fn in_every_queue_of_up_to_six_contenders_of_all_kinds_the_decision_is_the_models() {
    let checked = for_every_queue_of(&MODES, |modes| {
        let views = KINDS.each_ref().map(|kind| (kind, view_for(kind, modes)));
        for (me, &shown) in modes.iter().enumerate() {
            for ((role, asked, _, friends), view) in
                views.iter().filter(|((.., shown_as, _), _)| shown_as.contains(&shown))
            {
                let decision = decide(*asked, &id(me), view);
                let agrees = match (model(*asked, friends, me, modes), &decision) {
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

/// A mutex is handed on, and a share granted, without a second look; that is the purpose of the promise.
#[test]
fn the_departure_of_the_only_one_ahead_is_said_to_grant_wherever_no_other_can_take_its_place() {
    for asked in [Mode::Mutex, Mode::Gate, Mode::Candidate] {
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

/// Lets each contender depart whose departure is said to grant, with every set of others, after every join that can
/// come meanwhile: a reader beside each writer, and one more of its kind at the tail.
#[test]
fn a_departure_that_is_said_to_grant_does_grant_after_any_joins_and_departures_meanwhile() {
    let mut promises = 0;
    for kind in &KINDS {
        let &(_, asked, shown_as, friends) = kind;
        for_every_queue_of(friends, |modes| {
            // Of four kinds of contenders two behind us are enough: each one more takes ten times as long.
            if friends == ONE_LOCK && modes.len() > 4 {
                return;
            }
            for me in (0..modes.len()).filter(|&me| shown_as.contains(&modes[me])) {
                let before = view_for(kind, modes);
                if let Decision::WaitFor { ahead, departure_grants: true } = decide(asked, &id(me), &before) {
                    promises += 1;
                    for evolved in evolutions(&before, modes, me, &ahead) {
                        let decision = decide(asked, &id(me), &evolved);
                        assert_eq!(decision, Decision::Granted, "{me} asks for a {asked} in {modes:?}: {evolved:?}");
                    }
                }
            }
        });
    }
    assert!(promises > 500, "{promises} promises are too few");
}

/// As above, for one that was not the first when it was seen, and is known to have become so: none of those ahead of
/// it, and none that stood beside them, is left.
#[test]
fn the_departure_of_one_that_became_the_first_does_grant_where_it_is_said_to() {
    let mut promises = 0;
    for kind in &KINDS {
        let &(_, asked, shown_as, friends) = kind;
        for_every_queue_of(friends, |modes| {
            if friends == ONE_LOCK && modes.len() > 4 {
                return;
            }
            for me in (0..modes.len()).filter(|&me| shown_as.contains(&modes[me])) {
                let seen = view_for(kind, modes);
                let Decision::WaitFor { ahead, .. } = decide(asked, &id(me), &seen) else {
                    continue;
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
            }
        });
    }
    assert!(promises > 500, "{promises} promises are too few");
}

#[test]
fn a_contender_that_is_granted_alone_stands_first() {
    for kind in KINDS.iter().filter(|(_, asked, ..)| is_alone(*asked)) {
        let &(_, asked, shown_as, friends) = kind;
        for_every_queue_of(friends, |modes| {
            for me in (0..modes.len()).filter(|&me| shown_as.contains(&modes[me])) {
                let is_granted = decide(asked, &id(me), &view_for(kind, modes)) == Decision::Granted;
                assert_eq!(is_granted, me == 0, "{me} asks for a {asked} in {modes:?}");
            }
        });
    }
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
    let share_left = QueueView::new(Version(1), [contender(9, Mode::Read), contender(1, Mode::Exclusive)]);
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
        let &(_, asked_kind, _, friends) = kind;
        for_every_queue_of(friends, |modes| {
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

/// What the contender that is shown in this mode asks for, in a queue of this kind.
fn asked_by(kind: Mode, shown: Mode) -> Mode {
    match (kind, shown) {
        (_, Mode::Read | Mode::Write) => shown,
        (Mode::Read | Mode::Write, Mode::Exclusive) => Mode::Write,
        (Mode::Read | Mode::Write, shown) => shown,
        (kind, _) => kind,
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
            assert_eq!(permits(1, 10, &view), Permits::KindMismatch { found: elsewhere });
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
                    Permits::Fit
                } else {
                    Permits::WaitForChange
                };
                assert_eq!(permits(wanted, bound, &view), expected, "{taken} + {wanted} of {bound}");
            }
        }
        let too_many = if taken == 0 { Permits::Fit } else { Permits::WaitForChange };
        assert_eq!(permits(u32::MAX, u32::MAX, &view), too_many);
    }
}

/// Every contender there counts as a permit, in any mode.
#[test]
fn of_permits_everything_counts() {
    for mode in MODES {
        assert_eq!(permits(1, 2, &view(&[mode, Mode::Permit])), Permits::WaitForChange);
    }
}

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
    for kind in KINDS.iter().filter(|(_, asked, ..)| *asked != Mode::Gate) {
        let &(_, asked, _, friends) = kind;
        for_every_queue_of(friends, |modes| {
            let view = view_for(kind, modes);
            let granted = (0..modes.len())
                .map(|me| decide(asked_by(asked, modes[me]), &id(me), &view) == Decision::Granted)
                .collect::<Vec<_>>();
            assert_eq!(holders(&shown(modes, 0)), granted, "{modes:?}");
        });
    }
    // A contender at the gate holds nothing yet.
    assert_eq!(holders(&shown(&[Mode::Permit, Mode::Permit, Mode::Gate, Mode::Gate], 0)), [true, true, false, false]);
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
    for (.., friends) in KINDS {
        for_every_queue_of(friends, |modes| {
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
