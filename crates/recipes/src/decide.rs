//! Decisions over one view of a queue: which contenders may go. Pure.

use std::borrow::Borrow;

use lockkeeper_core::{Contender, ContenderId, ContenderInfo, Mode, MutexRole, QueueView, Ticket};

/// What a contender does next, given its queue.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// It holds the lock.
    Granted,
    /// It waits for this contender to leave.
    WaitFor {
        /// The nearest contender ahead that keeps us waiting.
        ahead: ContenderId,
        /// Whether its departure alone proves our turn: no other contender ahead keeps us waiting, and none that does
        /// can come.
        departure_grants: bool,
    },
    /// It does not stand in the queue: it was removed.
    NotInQueue,
    /// The queue has contenders of another kind of lock, and there is no common order with them.
    KindMismatch {
        /// What one of those contenders asks for.
        found: Mode,
    },
}

/// What a contender asks to be granted in the one queue of its lock, or among the waiters of a semaphore.
///
/// Each contender waits for the nearest one ahead that excludes it. So a holder's departure wakes the contenders that
/// may go and, where readers hold, at most the one writer behind them. No contender ever waits in a queue that another
/// kind of lock uses too.
///
/// ```
/// use lockkeeper::backend::decide::{self, Decision};
/// use lockkeeper_core::{Contender, ContenderId, Mode, QueueView, ConnectionNumber};
///
/// let contender = |id: &str| Contender { id: ContenderId::new(id), ticket: None, mode: Mode::Mutex };
/// let view = QueueView::new(ConnectionNumber(1), [contender("a"), contender("b")]);
/// assert_eq!(decide::decide(Mode::Mutex, &ContenderId::new("a"), &view), Decision::Granted);
/// let ahead = ContenderId::new("a");
/// assert_eq!(
///     decide::decide(Mode::Mutex, &ContenderId::new("b"), &view),
///     Decision::WaitFor { ahead, departure_grants: true },
/// );
/// ```
pub fn decide(asked: Mode, me: &ContenderId, view: &QueueView) -> Decision {
    let contenders = &view.contenders;
    let Some(position) = view.position(me) else {
        return Decision::NotInQueue;
    };
    if let Some(found) = kind_mismatch(asked, view) {
        return Decision::KindMismatch { found };
    }
    let before = &contenders[..position];
    let Some(nearest) = before.iter().rposition(|other| excludes(asked, other.mode)) else {
        return Decision::Granted;
    };
    let is_only_one = !before[..nearest].iter().any(|other| excludes(asked, other.mode));
    let departure_grants = is_only_one && !may_leave_an_excluding_one(asked, before[nearest].mode);
    Decision::WaitFor { ahead: before[nearest].id.clone(), departure_grants }
}

/// Returns the contenders ahead of a waiter for `asked`, the first one first, if it is granted the lock once all of
/// these have left, without another look: at most `count_max` readers, beside which no contender can join.
pub fn readers_ahead<'view>(
    asked: Mode,
    me: &ContenderId,
    view: &'view QueueView,
    count_max: usize,
) -> Option<&'view [Contender]> {
    let before = &view.contenders[..view.position(me)?];
    let is_whole = view.omitted == 0 && view.elsewhere.is_none();
    let are_readers = before.iter().all(|other| other.mode == Mode::Read);
    (is_alone(asked) && is_whole && are_readers && before.len() <= count_max).then_some(before)
}

/// Returns the only contender in the queue, if its process may keep its place while no task holds the lock.
pub fn may_be_idle(view: &QueueView) -> Option<ContenderId> {
    match &view.contenders[..] {
        [only] if only.ticket.is_some_and(Ticket::is_kept) && view.omitted == 0 && view.elsewhere.is_none() => {
            Some(only.id.clone())
        }
        _ => None,
    }
}

/// Tells whether the departure of `ahead` proves the turn of a waiter for `asked`, once it is known that no contender
/// was left ahead of `ahead`. In this view, `ahead` is the nearest contender that keeps the waiter waiting.
pub fn departure_of_first_grants(asked: Mode, ahead: &ContenderId, view: &QueueView) -> bool {
    let ahead = view.position(ahead).map(|position| view.contenders[position].mode);
    ahead.is_some_and(|ahead| !may_leave_an_excluding_one(asked, ahead))
}

/// Tells whether no contender is left ahead of one that was granted this mode.
pub const fn is_alone(asked: Mode) -> bool {
    match asked {
        Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Acquire | Mode::Candidate => true,
        Mode::Read | Mode::Permit | Mode::Member => false,
    }
}

/// Tells whether a contender for `asked` waits for one ahead of it that is shown as `ahead`, of the same kind of lock.
const fn excludes(asked: Mode, ahead: Mode) -> bool {
    match asked {
        // Readers share, so only writers keep them waiting.
        Mode::Read => !matches!(ahead, Mode::Read),
        // Their order does not limit how many there may be at a time.
        Mode::Permit | Mode::Member => false,
        Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Acquire | Mode::Candidate => true,
    }
}

/// Tells whether the departure of `ahead` may leave another contender in its place that excludes `asked`. That can only
/// be a reader: only a reader can join beside another contender, and only beside a writer.
///
/// A mutex never turns into another mode, so a contender that waits only for a mutex needs no second look.
const fn may_leave_an_excluding_one(asked: Mode, ahead: Mode) -> bool {
    match (asked, ahead) {
        // A share keeps no reader waiting.
        (Mode::Read, _) => false,
        // It is a write lock, may be one, or shares the place of one.
        (_, Mode::Write | Mode::Exclusive | Mode::Read) => true,
        _ => false,
    }
}

/// Returns what a contender of another kind of lock asks for, if there is one. Then no contender for `asked` may be
/// granted anything.
pub fn kind_mismatch(asked: Mode, view: &QueueView) -> Option<Mode> {
    // Where an election is laid out as a mutex, it is one, for itself and for other locks.
    let asked = if asked == Mode::Candidate { view.candidate } else { asked };
    let is_same_kind = |mode: Mode| match (asked, view.mutex_role) {
        (Mode::Mutex | Mode::Read | Mode::Write | Mode::Exclusive, MutexRole::Writer) => {
            matches!(mode, Mode::Mutex | Mode::Read | Mode::Write | Mode::Exclusive)
        }
        (Mode::Read | Mode::Write, MutexRole::Stranger) => matches!(mode, Mode::Read | Mode::Write | Mode::Exclusive),
        (Mode::Mutex | Mode::Exclusive, MutexRole::Stranger) => matches!(mode, Mode::Mutex | Mode::Exclusive),
        (Mode::Acquire | Mode::Permit | Mode::Candidate | Mode::Member, _) => mode == asked,
    };
    view.elsewhere.or_else(|| view.first_mode(|mode| !is_same_kind(mode)))
}

/// Tells whether a contender that joins now would be granted `asked` at once.
pub fn is_free(asked: Mode, view: &QueueView) -> bool {
    !view.contenders.iter().any(|other| excludes(asked, other.mode))
}

/// Whether the first waiter can take permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PermitsDecision {
    /// They fit.
    Fit,
    /// Too many are taken, or the bound is too low: wait for a change.
    WaitForChange,
    /// The lock is in use as another kind.
    KindMismatch {
        /// What a contender of that kind asks for.
        found: Mode,
    },
}

/// Decides whether `wanted` more permits fit under `bound`, given the queue of permits. Every entry in it counts.
pub fn permits(wanted: u32, bound: u32, view: &QueueView) -> PermitsDecision {
    if let Some(found) = view.elsewhere {
        return PermitsDecision::KindMismatch { found };
    }
    let taken = u32::try_from(view.contenders.len()).unwrap_or(u32::MAX);
    if taken.checked_add(wanted).is_some_and(|all| all <= bound) {
        PermitsDecision::Fit
    } else {
        PermitsDecision::WaitForChange
    }
}

/// Tells for each contender of a lock, as a look shows them, whether it holds; for onlookers.
///
/// A reader that shares a writer's place has its token, and holds while the writer does.
pub fn holders<Info: Borrow<ContenderInfo>>(contenders: &[Info]) -> Vec<bool> {
    let contenders = || contenders.iter().map(Borrow::borrow);
    let only_readers = contenders().take_while(|contender| contender.mode == Mode::Read).count();
    // Contenders that share one place stand one behind the other, the writer first.
    let writer = contenders().next().filter(|first| first.mode != Mode::Read && first.token.is_some());
    let shares_its_place = |reader: &ContenderInfo| writer.is_some_and(|writer| reader.token == writer.token);
    let holds = |(at, me): (usize, &ContenderInfo)| match me.mode {
        Mode::Permit | Mode::Member => true,
        Mode::Acquire => false,
        Mode::Read => at < only_readers || shares_its_place(me),
        Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Candidate => at == 0,
    };
    contenders().enumerate().map(holds).collect()
}

#[cfg(test)]
mod tests;
