//! All queues that are checked, and the second definition of the decision: a table.

use lockkeeper_core::{ConnectionNumber, Contender, ContenderId, Mode, MutexRole, QueueView};

/// The most contenders of an exhaustively checked queue.
pub(super) const CONTENDERS_MAX: usize = 6;

pub(super) const MODES: [Mode; 8] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive, Mode::Acquire, Mode::Permit, Mode::Candidate, Mode::Member];

/// All queues of up to six contenders of eight modes: 8 + 64 + … + 262,144.
pub(super) const QUEUES: usize = 8 + 64 + 512 + 4_096 + 32_768 + 262_144;

/// The role of a mutex in the queue, what may be asked for, what services may show it as, and what else may stand in
/// the same queue.
pub(super) type Kind = (MutexRole, Mode, &'static [Mode], &'static [Mode]);

/// All modes that may stand in the queue of a name of our own that is a mutex and a read/write lock.
pub(super) const ONE_LOCK: &[Mode] = &[Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive];

pub(super) const MUTEX_SHOWN: &[Mode] = &[Mode::Mutex, Mode::Exclusive];

pub(super) const WRITE_SHOWN: &[Mode] = &[Mode::Write, Mode::Exclusive];

pub(super) const KINDS: [Kind; 12] = [
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
    (MutexRole::Writer, Mode::Acquire, &[Mode::Acquire], &[Mode::Acquire]),
    (MutexRole::Writer, Mode::Permit, &[Mode::Permit], &[Mode::Permit]),
    (MutexRole::Writer, Mode::Member, &[Mode::Member], &[Mode::Member]),
];

/// Which two may not hold at the same time, whichever of them came first.
pub(super) const EXCLUDING: [(Mode, Mode); 15] = [
    (Mode::Mutex, Mode::Mutex),
    (Mode::Mutex, Mode::Read),
    (Mode::Mutex, Mode::Write),
    (Mode::Mutex, Mode::Exclusive),
    (Mode::Exclusive, Mode::Exclusive),
    (Mode::Exclusive, Mode::Read),
    (Mode::Exclusive, Mode::Write),
    (Mode::Write, Mode::Read),
    (Mode::Write, Mode::Write),
    (Mode::Acquire, Mode::Acquire),
    (Mode::Candidate, Mode::Candidate),
    // Of an election that is laid out as a mutex.
    (Mode::Candidate, Mode::Mutex),
    (Mode::Candidate, Mode::Read),
    (Mode::Candidate, Mode::Write),
    (Mode::Candidate, Mode::Exclusive),
];

pub(super) fn exclude(one: Mode, other: Mode) -> bool {
    EXCLUDING.contains(&(one, other)) || EXCLUDING.contains(&(other, one))
}

pub(super) fn id(number: usize) -> ContenderId {
    ContenderId::new(number.to_string())
}

pub(super) fn contender(number: usize, mode: Mode) -> Contender {
    Contender { id: id(number), ticket: None, mode }
}

/// Returns the view with a change.
pub(super) fn changed(mut view: QueueView, change: impl FnOnce(&mut QueueView)) -> QueueView {
    change(&mut view);
    view
}

pub(super) fn view(modes: &[Mode]) -> QueueView {
    let contenders = modes.iter().enumerate().map(|(number, &mode)| contender(number, mode));
    QueueView::new(ConnectionNumber(1), contenders.collect::<Vec<_>>())
}

/// Shows a queue of these modes to a contender of a kind.
pub(super) fn view_for((mutex_role, asked, shown_as, _): &Kind, modes: &[Mode]) -> QueueView {
    // In each of them, its only effect is that it stands for a mutex.
    let candidate = if *asked == Mode::Candidate { shown_as[0] } else { Mode::Candidate };
    changed(view(modes), |view| (view.mutex_role, view.candidate) = (*mutex_role, candidate))
}

/// Calls `check` with every sequence of these modes of up to six contenders, and returns how many there were.
pub(super) fn for_every_queue_of(modes: &[Mode], mut check: impl FnMut(&[Mode])) -> usize {
    let mut queue = Vec::with_capacity(CONTENDERS_MAX);
    let mut checked = 0;
    extend_every_way(modes, &mut queue, &mut |queue| {
        check(queue);
        checked += 1;
    });
    checked
}

pub(super) fn extend_every_way(modes: &[Mode], queue: &mut Vec<Mode>, check: &mut dyn FnMut(&[Mode])) {
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
pub(super) fn model(asked: Mode, same_kind: &[Mode], me: usize, modes: &[Mode]) -> Model {
    if let Some(&found) = modes.iter().find(|mode| !same_kind.contains(mode)) {
        return Model::Mismatch(found);
    }
    let ahead: Vec<usize> = (0..me).filter(|&other| exclude(asked, modes[other])).collect();
    match ahead.last() {
        None => Model::Holds,
        Some(&nearest) => Model::WaitsFor { nearest, only: ahead.len() == 1 },
    }
}

#[derive(Debug)]
pub(super) enum Model {
    Holds,
    WaitsFor { nearest: usize, only: bool },
    Mismatch(Mode),
}

/// What the contender that is shown in this mode asks for, in a queue of this kind.
pub(super) fn asked_by(kind: Mode, shown: Mode) -> Mode {
    match (kind, shown) {
        (_, Mode::Read | Mode::Write) => shown,
        (Mode::Read | Mode::Write, Mode::Exclusive) => Mode::Write,
        (Mode::Read | Mode::Write, shown) => shown,
        (kind, _) => kind,
    }
}
