//! The machine as its driver sees and sets it, beside inputs and outputs.

use std::sync::Arc;

use crate::machine::io::RequestHook;
use crate::machine::server::{Counters, ServerMachine};
use crate::machine::settings::MemoryLimits;
use crate::machine::state::ServerState;
use crate::measures::{ServerMeasures, Stock};

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

    /// How many bytes wait to be taken by [`ServerMachine::poll_output`] and sent.
    pub const fn answered_bytes(&self) -> usize {
        self.answered_bytes
    }

    /// How many outputs wait for [`ServerMachine::poll_output`].
    pub(crate) fn outputs_count(&self) -> usize {
        self.outputs.len()
    }

    /// Has `mntr` and `srvr` show these measurements; without any they show none.
    pub(crate) fn set_measures(&mut self, measures: Arc<ServerMeasures>) {
        self.measures = Some(measures);
    }

    /// Has every request shown to `hook` just before it takes effect.
    pub fn set_hook(&mut self, hook: Option<RequestHook>) {
        self.hook = hook;
    }

    /// Plants a fault: a session that moves leaves its former connection open.
    pub(crate) fn keep_former_connections(&mut self) {
        self.keeps_former_connections = true;
    }

    /// Has a node count its children from here; returns whether there is such a node.
    pub fn set_children_made(&mut self, path: &str, count: i32) -> bool {
        self.state.tree.set_children_created(path, count)
    }

    /// Sets whether changes can be stored at present; while they cannot, writes and new sessions are refused.
    pub fn set_refuses_writes(&mut self, refuses: bool) {
        self.refuses_writes = refuses;
    }

    /// How much of each thing there may be.
    pub(crate) const fn limits(&self) -> &MemoryLimits {
        &self.settings.limits
    }

    #[cfg(test)]
    pub(crate) const fn state(&self) -> &ServerState {
        &self.state
    }

    /// The state, for a snapshot to be taken of it.
    pub(crate) const fn state_mut(&mut self) -> &mut ServerState {
        &mut self.state
    }
}
