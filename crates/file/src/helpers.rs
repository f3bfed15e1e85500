//! The threads of one session that wait for other processes, how many there are, and the gates that wait for one of
//! them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::gate::QueueGate;

/// How many threads of one session may wait for other processes at the same time; further queues wait for one of them.
///
/// Such a thread lives while another process is entering a queue: for a few system calls, unless that process is
/// stopped meanwhile.
const HELPERS_MAX: usize = 16;

/// The threads of one session that serve gates.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    running: usize,
    waiting: VecDeque<Arc<QueueGate>>,
}

impl Helpers {
    /// Returns the gate if a thread is to be started for it; else it waits for one that runs.
    pub(crate) fn engage(&mut self, gate: Arc<QueueGate>) -> Option<Arc<QueueGate>> {
        if self.running >= HELPERS_MAX {
            self.waiting.push_back(gate);
            return None;
        }
        self.running += 1;
        Some(gate)
    }

    /// Notes that a thread could not be started.
    pub(crate) fn dismiss(&mut self) {
        self.running -= 1;
    }

    /// Returns the gate that a thread serves next; if there is none, the thread ends.
    pub(crate) fn next(&mut self) -> Option<Arc<QueueGate>> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.running -= 1;
        }
        next
    }
}
