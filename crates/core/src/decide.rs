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
        /// Whether its departure alone proves our turn: nobody else ahead keeps us waiting, and nobody can come who does.
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
/// Each waits for the nearest one ahead that excludes it, so that one departure wakes those who may go, and nobody else.
/// None ever waits in a queue that another kind of lock uses too.
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
    let (before, excludes): (_, fn(Mode) -> bool) = match asked {
        // Readers share, so only writers keep them waiting.
        Mode::Read => (&contenders[..position], |other| other != Mode::Read),
        _ => (&contenders[..position], |_| true),
    };
    let Some(nearest) = before.iter().rposition(|other| excludes(other.mode)) else {
        return Decision::Granted;
    };
    let is_only_one = !before[..nearest].iter().any(|other| excludes(other.mode));
    // A writer may leave a reader in its own place, behind which another writer must wait on.
    let departure_grants = is_only_one && asked != Mode::Write;
    Decision::WaitFor { ahead: before[nearest].id.clone(), departure_grants }
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
    match asked {
        Mode::Read => view.contenders.iter().all(|other| other.mode == Mode::Read),
        _ => view.contenders.is_empty(),
    }
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
        match me.mode {
            Mode::Permit | Mode::Member => true,
            Mode::Gate => false,
            Mode::Read => contenders[..at].iter().all(|other| {
                let shares_its_place = other.token.is_some() && other.token == me.token;
                other.mode == Mode::Read || shares_its_place
            }),
            Mode::Mutex | Mode::Write | Mode::Exclusive | Mode::Candidate => at == 0,
        }
    };
    (0..contenders.len()).map(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Contender, Version};

    fn mutex(me: &ContenderId, view: &QueueView) -> Decision {
        decide(Mode::Mutex, me, view)
    }

    /// The most contenders of an exhaustively checked queue.
    const CONTENDERS_MAX: usize = 6;

    const MODES: [Mode; 3] = [Mode::Mutex, Mode::Read, Mode::Write];

    fn id(number: usize) -> ContenderId {
        ContenderId::new(number.to_string())
    }

    fn view(modes: &[Mode]) -> QueueView {
        let contenders =
            modes.iter().enumerate().map(|(number, &mode)| Contender { id: id(number), ticket: None, mode });
        QueueView::new(Version(1), contenders.collect::<Vec<_>>())
    }

    /// Calls `check` with every sequence of modes of up to six contenders: 3 + 9 + … + 729 queues.
    fn for_every_queue(mut check: impl FnMut(&[Mode])) -> usize {
        let mut queues = vec![Vec::new()];
        let mut checked = 0;
        for _ in 0..CONTENDERS_MAX {
            queues = queues
                .into_iter()
                .flat_map(|queue: Vec<Mode>| MODES.map(|mode| [queue.clone(), vec![mode]].concat()))
                .collect();
            for queue in &queues {
                check(queue);
                checked += 1;
            }
        }
        checked
    }

    #[test]
    fn in_every_queue_of_up_to_six_exactly_the_first_mutex_is_granted() {
        let checked = for_every_queue(|modes| {
            let view = view(modes);
            let only_mutexes = modes.iter().all(|&mode| mode == Mode::Mutex);
            for (number, _) in modes.iter().enumerate().filter(|&(_, &mode)| mode == Mode::Mutex) {
                let expected = if !only_mutexes {
                    let found = *modes.iter().find(|&&mode| mode != Mode::Mutex).unwrap();
                    Decision::KindMismatch { found }
                } else if number == 0 {
                    Decision::Granted
                } else {
                    Decision::WaitFor { ahead: id(number - 1), departure_grants: number == 1 }
                };
                assert_eq!(mutex(&id(number), &view), expected, "{number} in {modes:?}");
            }
        });
        assert_eq!(checked, 3 + 9 + 27 + 81 + 243 + 729);
    }

    #[test]
    fn a_contender_that_is_not_in_the_queue_is_never_granted() {
        for_every_queue(|modes| {
            assert_eq!(mutex(&id(modes.len()), &view(modes)), Decision::NotInQueue);
        });
        assert_eq!(mutex(&id(0), &view(&[])), Decision::NotInQueue);
    }

    /// In a queue of mutexes, let any one leave: if it was the one waited for and its departure was said to grant, then
    /// the waiter is granted in the queue that is left, whoever joined at the tail meanwhile.
    #[test]
    fn a_departure_that_is_said_to_grant_does_grant() {
        for length in 2..=CONTENDERS_MAX {
            let before = view(&vec![Mode::Mutex; length]);
            for me in 1..length {
                let Decision::WaitFor { ahead, departure_grants } = mutex(&id(me), &before) else {
                    panic!("{me} of {length} does not wait");
                };
                let left: Vec<_> = before.contenders.iter().filter(|other| other.id != ahead).cloned().collect();
                let after = QueueView::new(Version(1), left);
                let granted = mutex(&id(me), &after) == Decision::Granted;
                assert_eq!(granted, departure_grants, "{me} of {length}");
            }
        }
    }
}
