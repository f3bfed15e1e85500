//! Who may go: pure decisions over one view of a queue.

use crate::contender::{ContenderId, ContenderInfo, Mode, QueueView};

/// What a contender is to do, as its queue stands.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// It holds the lock.
    Granted,
    /// It waits for this contender to leave.
    WaitFor {
        /// The nearest one ahead that keeps us waiting.
        ahead: ContenderId,
        /// Whether its departure alone proves our turn: nobody else ahead keeps us waiting, and nobody can come who
        /// does.
        departure_grants: bool,
    },
    /// It does not stand in the queue: somebody removed it.
    NotInQueue,
    /// The queue has contenders of another kind of lock, and no order is agreed with them.
    KindMismatch {
        /// What one of the others asks for.
        found: Mode,
    },
}

/// What a contender asks to be granted in the one queue of its lock, or in the gate of a semaphore.
///
/// Each waits for the nearest one ahead that excludes it, so that a holder's departure wakes those who may go and,
/// where readers hold, at most the one writer behind them. None ever waits in a queue that another kind of lock uses
/// too.
///
/// ```
/// use lockkeeper_core::decide::{self, Decision};
/// use lockkeeper_core::{Contender, ContenderId, Mode, QueueView, Version};
///
/// let contender = |id: &str| Contender { id: ContenderId::new(id), ticket: None, mode: Mode::Mutex };
/// let view = QueueView::new(Version(1), [contender("a"), contender("b")]);
/// assert_eq!(decide::decide(Mode::Mutex, &ContenderId::new("a"), &view), Decision::Granted);
/// let ahead = ContenderId::new("a");
/// assert_eq!(
///     decide::decide(Mode::Mutex, &ContenderId::new("b"), &view),
///     Decision::WaitFor { ahead, departure_grants: true },
/// );
/// ```
pub fn decide(asked: Mode, me: &ContenderId, view: &QueueView) -> Decision {
    let contenders = &view.contenders;
    let Some(position) = contenders.iter().position(|contender| contender.id == *me) else {
        return Decision::NotInQueue;
    };
    if let Some(found) = stranger(asked, contenders[position].mode, view) {
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

/// Tells whether whoever asks for `asked` waits for one that is ahead and shown as `ahead`, of the same kind of lock.
const fn excludes(asked: Mode, ahead: Mode) -> bool {
    match asked {
        // Readers share, so only writers keep them waiting.
        Mode::Read => !matches!(ahead, Mode::Read),
        // How many there may be at a time is not said by their order.
        Mode::Permit | Mode::Member => false,
        Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Gate | Mode::Candidate => true,
    }
}

/// Tells whether the departure of `ahead` may leave another one in its place that excludes `asked`: a reader, which is
/// the only one that can come to stand beside another, and only beside a writer.
const fn may_leave_an_excluding_one(asked: Mode, ahead: Mode) -> bool {
    match asked {
        Mode::Read => false,
        Mode::Write => true,
        // One that is shown so may be a write lock.
        _ => matches!(ahead, Mode::Exclusive),
    }
}

/// Returns what a contender of another kind of lock asks for, if there is one.
///
/// `shown` is our own mode as the service shows it: where an election is laid out as a mutex, its candidates are.
fn stranger(asked: Mode, shown: Mode, view: &QueueView) -> Option<Mode> {
    let is_friend: fn(Mode) -> bool = match (asked, shown) {
        (Mode::Read | Mode::Write, _) => |mode| matches!(mode, Mode::Read | Mode::Write | Mode::Exclusive),
        (Mode::Mutex, _) | (Mode::Candidate, Mode::Mutex | Mode::Exclusive) => {
            |mode| matches!(mode, Mode::Mutex | Mode::Exclusive)
        }
        (Mode::Candidate, _) => |mode| mode == Mode::Candidate,
        (Mode::Gate, _) => |mode| mode == Mode::Gate,
        (Mode::Permit, _) => |mode| mode == Mode::Permit,
        (Mode::Member, _) => |mode| mode == Mode::Member,
        (Mode::Exclusive, _) => |mode| mode == Mode::Exclusive,
    };
    view.elsewhere.or_else(|| view.contenders.iter().map(|other| other.mode).find(|&mode| !is_friend(mode)))
}

/// Returns what somebody asks for in a queue in which nobody who asks for `asked` may be granted anything, for whoever
/// only looks.
pub fn kind_mismatch(asked: Mode, view: &QueueView) -> Option<Mode> {
    // Whoever does not stand in the queue does not know how its own mode would be shown.
    let shown = view.contenders.first().map_or(asked, |first| first.mode);
    stranger(asked, if asked == Mode::Candidate { shown } else { asked }, view)
}

/// Tells whether somebody who joined now would be granted `asked` at once.
pub fn is_free(asked: Mode, view: &QueueView) -> bool {
    !view.contenders.iter().any(|other| excludes(asked, other.mode))
}

/// Whether permits can be taken, for whoever is first at the gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Permits {
    /// They fit.
    Fit,
    /// Too many are taken, or the bound is too low: wait for a change.
    WaitForChange,
    /// The lock is in use as one of another kind.
    KindMismatch {
        /// What somebody there asks for.
        found: Mode,
    },
}

/// Decides whether `wanted` more permits fit under `bound`, as the queue of permits stands. Everything in it counts.
pub fn permits(wanted: u32, bound: u32, view: &QueueView) -> Permits {
    if let Some(found) = view.elsewhere {
        return Permits::KindMismatch { found };
    }
    let taken = u32::try_from(view.contenders.len()).unwrap_or(u32::MAX);
    if taken.checked_add(wanted).is_some_and(|all| all <= bound) { Permits::Fit } else { Permits::WaitForChange }
}

/// Tells of each contender of a lock, as a look shows them, whether it holds: for whoever only looks.
///
/// A reader that shares a writer's place has its token, and holds as long as the writer does.
pub fn holders(contenders: &[ContenderInfo]) -> Vec<bool> {
    let holds = |at: usize| {
        let me = &contenders[at];
        // Those who share one place stand one behind the other, the writer first.
        let shares_our_place = |other: &ContenderInfo| other.token.is_some() && other.token == me.token;
        let place = contenders[..at].iter().position(shares_our_place).unwrap_or(at);
        match (me.mode, contenders[place].mode) {
            (Mode::Permit | Mode::Member, _) => true,
            (Mode::Gate, _) => false,
            (Mode::Read, Mode::Read) => contenders[..place].iter().all(|other| other.mode == Mode::Read),
            (Mode::Read, _) => place == 0,
            (Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Candidate, _) => at == 0,
        }
    };
    (0..contenders.len()).map(holds).collect()
}

#[cfg(test)]
mod tests;
