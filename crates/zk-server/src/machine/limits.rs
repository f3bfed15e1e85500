//! Limits: one number of bytes of memory, and the share of it that each thing has.
//!
//! The shares add up to the whole. What a thing takes is estimated where it is counted.

use std::time::Duration;

/// The memory if none is given, in bytes: half of it is a gibibyte for nodes.
const MEMORY_BYTES_DEFAULT: usize = 2 << 30;
/// The least memory, in bytes: one frame of each kind, and some clients, fit into the shares.
pub(crate) const MEMORY_BYTES_MIN: usize = 64 << 20;
/// What a connection takes while nothing is under way on it, in bytes: its tasks, buffers and descriptor.
const CONNECTION_BYTES: usize = 8 << 10;
/// What a session takes, in bytes.
const SESSION_BYTES: usize = 256;
/// How much may wait for a client before it is served no further, in bytes: a client that asks must read the answers.
pub(crate) const UNREAD_BYTES_MAX: usize = 1 << 20;
/// How long a connection may take for its handshake, as in Apache; a slower one holds a descriptor for nothing.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many identities one connection may have; no sensible client adds more.
pub(crate) const IDENTITIES_MAX: usize = 64;

/// The limits that follow from one amount of memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryLimits {
    /// Nodes with their data.
    pub(crate) tree_bytes_max: usize,
    /// All watches.
    pub(crate) watch_bytes_max: usize,
    /// The watches of one connection.
    pub(crate) watch_bytes_per_connection_max: usize,
    /// What waits for all clients to be read.
    pub(crate) queued_bytes_max: usize,
    /// What waits for one client to be read, events among it: a client that asks is not served so far.
    pub(crate) queued_bytes_per_connection_max: usize,
    /// Answers that wait for their records to be stored.
    pub(crate) held_bytes_max: usize,
    /// Requests that have not come whole, or are not served yet, of all connections.
    pub(crate) request_bytes_max: usize,
    /// What one input may cause to be sent: events to many clients.
    pub(crate) answered_bytes_max: usize,
    /// The answers to one request; reading one large node over and over in one would otherwise fill the memory.
    pub(crate) multi_read_bytes_max: usize,
    /// Connections.
    pub(crate) connections_max: usize,
    /// Sessions.
    pub(crate) sessions_max: usize,
}

impl MemoryLimits {
    /// The limits of a server that may take this much memory, in bytes; less than 64 MiB counts as that.
    pub const fn of_memory(bytes: usize) -> Self {
        let bytes = if bytes < MEMORY_BYTES_MIN { MEMORY_BYTES_MIN } else { bytes };
        Self {
            tree_bytes_max: bytes / 2,
            watch_bytes_max: bytes / 8,
            watch_bytes_per_connection_max: bytes / 32,
            queued_bytes_max: bytes / 8,
            queued_bytes_per_connection_max: bytes / 64,
            held_bytes_max: bytes / 32,
            request_bytes_max: bytes / 32,
            answered_bytes_max: bytes / 32,
            multi_read_bytes_max: bytes / 32,
            connections_max: bytes / 16 / CONNECTION_BYTES,
            sessions_max: bytes / 16 / SESSION_BYTES,
        }
    }

    /// Gives the nodes this much memory instead of half of the whole, in bytes.
    #[must_use]
    pub const fn with_tree_bytes_max(self, tree_bytes_max: usize) -> Self {
        Self { tree_bytes_max, ..self }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self::of_memory(MEMORY_BYTES_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_the_whole() {
        for memory in [MEMORY_BYTES_MIN, MEMORY_BYTES_DEFAULT, 12_345_678_901] {
            let limits = MemoryLimits::of_memory(memory);
            let shares = [
                limits.tree_bytes_max,
                limits.watch_bytes_max,
                limits.queued_bytes_max,
                limits.held_bytes_max,
                limits.request_bytes_max,
                limits.answered_bytes_max,
                limits.multi_read_bytes_max,
                limits.connections_max * CONNECTION_BYTES,
                limits.sessions_max * SESSION_BYTES,
            ];
            let sum: usize = shares.iter().sum();
            assert!(sum <= memory && sum > memory - memory / 100, "{sum} of {memory}");
            assert!(limits.queued_bytes_per_connection_max >= UNREAD_BYTES_MAX, "{limits:?}");
        }
        assert_eq!(MemoryLimits::of_memory(1), MemoryLimits::of_memory(MEMORY_BYTES_MIN));
    }
}
