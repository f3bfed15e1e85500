//! The local queues of one keeper: one for each lock, mode and policy.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::{Error, Mode, QueueName};

use crate::contend::local_queue::state::Bound;
use crate::contend::local_queue::turn::LocalQueue;
use crate::shared::Shared;

/// The fewest local queues among which those that are used no more are looked for.
const SWEEP_MIN: usize = 64;

type QueueKey = (QueueName, Mode, Bound);

/// The local queues of one keeper.
#[derive(Default)]
pub(crate) struct LocalQueues {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// A local queue with an idle place is in use though no lock refers to it.
    local_queues: HashMap<QueueKey, Arc<LocalQueue>>,
    /// At how many local queues those that are used no more are looked for.
    swept_at: usize,
}

impl LocalQueues {
    /// Returns the local queue for this lock.
    pub(crate) fn of(&self, shared: &Arc<Shared>, queue: &QueueName, mode: Mode, bound: Bound) -> Arc<LocalQueue> {
        let mut known = self.known();
        let key = (queue.clone(), mode, bound);
        if let Some(local) = known.local_queues.get(&key) {
            return local.clone();
        }
        if known.local_queues.len() >= known.swept_at.max(SWEEP_MIN) {
            known.local_queues.retain(|_, local| Arc::strong_count(local) > 1 || local.state().has_place());
            known.swept_at = known.local_queues.len() * 2;
        }
        let local = Arc::new(LocalQueue::new(shared, queue.clone(), mode, bound));
        known.local_queues.insert(key, local.clone());
        local
    }

    /// Fails all tasks that wait in line.
    pub(crate) fn fail(&self, error: &Error) {
        let local_queues: Vec<_> = self.known().local_queues.values().cloned().collect();
        for local in local_queues {
            let error = error.clone().at(&local.queue);
            local.change(|state| state.fail_before(u64::MAX, &error));
        }
    }

    /// Returns how many tasks wait in the lines of this lock.
    pub(crate) fn waiters(&self, queue: &QueueName) -> usize {
        let known = self.known();
        let local_queues = known.local_queues.iter().filter(|((of, ..), _)| of == queue);
        local_queues.map(|(_, local)| local.state().line.len()).sum()
    }

    /// Nothing panics while it is locked.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalQueues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.known().local_queues.keys().map(|(queue, ..)| queue.as_str())).finish()
    }
}
