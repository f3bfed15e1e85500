//! Who may go: a pure decision over one view of a queue.

use crate::contender::{ContenderId, Mode, QueueView};

/// What a contender is to do, as its queue stands.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// It holds the lock.
    Granted,
    /// It waits for this contender to leave.
    WaitFor {
        /// The one just ahead.
        ahead: ContenderId,
        /// Whether its departure alone proves our turn: it is the first, and the queue holds only exclusive entries, so
        /// nobody else can be ahead of us after it.
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

/// Decides what the mutex contender `me` is to do as the queue stands.
///
/// It holds the lock if it is first in line, and otherwise waits for the one just ahead, so that one
/// departure wakes one waiter. It never waits in a queue that another kind of lock uses too.
///
/// ```
/// use lockkeeper_core::decide::{self, Decision};
/// use lockkeeper_core::{Contender, ContenderId, Mode, QueueView, Version};
///
/// let contender = |id: &str| Contender { id: ContenderId::new(id), ticket: None, mode: Mode::Mutex };
/// let view = QueueView::new(Version(1), [contender("a"), contender("b")]);
/// assert_eq!(decide::mutex(&ContenderId::new("a"), &view), Decision::Granted);
/// let ahead = ContenderId::new("a");
/// assert_eq!(
///     decide::mutex(&ContenderId::new("b"), &view),
///     Decision::WaitFor { ahead, departure_grants: true },
/// );
/// ```
pub fn mutex(me: &ContenderId, view: &QueueView) -> Decision {
    let contenders = &view.contenders;
    let Some(position) = contenders.iter().position(|contender| contender.id == *me) else {
        return Decision::NotInQueue;
    };
    if let Some(other) = contenders.iter().find(|contender| contender.mode != Mode::Mutex) {
        return Decision::KindMismatch { found: other.mode };
    }
    match position.checked_sub(1) {
        None => Decision::Granted,
        Some(before) => Decision::WaitFor { ahead: contenders[before].id.clone(), departure_grants: before == 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Contender, Version};

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
