//! The written form of the state and its changes: the bytes of log records and snapshots.
//!
//! What a file is, when it is flushed and how a torn one is handled is the matter of `storage`.

mod snapshot;
mod transaction;

#[cfg(test)]
pub(crate) use snapshot::encode_state;
pub(crate) use snapshot::{decode_state, encode_head, encode_node};
pub(crate) use transaction::{decode_transaction, encode_transaction};
