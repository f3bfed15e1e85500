//! The seats of one keeper: one for each lock, mode and policy.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::{Error, Mode, QueueName};

use super::state::Bound;
use super::turn::Seat;
use crate::shared::Shared;

/// The fewest seats among which those that are used no more are looked for.
const SWEEP_MIN: usize = 64;

type SeatKey = (QueueName, Mode, Bound);

/// The seats of one keeper.
#[derive(Default)]
pub(crate) struct Seats {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// A seat with an idle place is in use though no lock refers to it.
    seats: HashMap<SeatKey, Arc<Seat>>,
    /// At how many seats those that are used no more are looked for.
    swept_at: usize,
}

impl Seats {
    /// Returns the seat for this lock.
    pub(crate) fn of(&self, shared: &Arc<Shared>, queue: &QueueName, mode: Mode, bound: Bound) -> Arc<Seat> {
        let mut known = self.known();
        let key = (queue.clone(), mode, bound);
        if let Some(seat) = known.seats.get(&key) {
            return seat.clone();
        }
        if known.seats.len() >= known.swept_at.max(SWEEP_MIN) {
            known.seats.retain(|_, seat| Arc::strong_count(seat) > 1 || seat.state().has_place());
            known.swept_at = known.seats.len() * 2;
        }
        let seat = Arc::new(Seat::new(shared, queue.clone(), mode, bound));
        known.seats.insert(key, seat.clone());
        seat
    }

    /// Fails all tasks that wait in line.
    pub(crate) fn fail(&self, error: &Error) {
        let seats: Vec<_> = self.known().seats.values().cloned().collect();
        for seat in seats {
            let error = error.clone().at(&seat.queue);
            seat.change(|state| state.fail_before(u64::MAX, &error));
        }
    }

    /// Returns how many tasks wait in the lines of this lock.
    pub(crate) fn waiters(&self, queue: &QueueName) -> usize {
        let known = self.known();
        let seats = known.seats.iter().filter(|((of, ..), _)| of == queue);
        seats.map(|(_, seat)| seat.state().line.len()).sum()
    }

    /// Nothing panics while it is locked.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Seats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.known().seats.keys().map(|(queue, ..)| queue.as_str())).finish()
    }
}
