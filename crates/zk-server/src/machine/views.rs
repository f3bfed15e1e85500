//! Views of the machine from outside: counts, which change nothing.

use crate::machine::server::{Counters, ServerMachine};
use crate::measures::Stock;

impl ServerMachine {
    /// The packets so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of the latest transaction.
    pub const fn zxid(&self) -> i64 {
        self.state.zxid
    }

    /// The sessions there are, in order.
    pub fn session_ids(&self) -> Vec<i64> {
        self.state.sessions.iter().map(|(id, _)| id).collect()
    }

    /// How many watches are set.
    pub const fn watches_count(&self) -> usize {
        self.watches.len()
    }

    /// How many nodes there are, the service's own included.
    pub fn nodes_count(&self) -> usize {
        self.state.tree.len()
    }

    /// What there is, for metrics.
    pub(crate) fn stock(&self) -> Stock {
        Stock {
            connections: self.connections.len(),
            sessions: self.state.sessions.len(),
            watches: self.watches.len(),
            nodes: self.state.tree.len(),
            data_bytes: self.state.tree.data_bytes(),
            tree_bytes: self.state.tree.memory_bytes(),
            packets_received: self.counters.received,
            packets_sent: self.counters.sent,
            refuses_writes: self.refuses_writes,
        }
    }
}
