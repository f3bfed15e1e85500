//! How the state and its changes are written down: the bytes of log records and snapshots.
//!
//! What a file is, when it is flushed and what is done about a torn one is the storage's business.

mod snapshot;
mod transaction;

pub(crate) use snapshot::{decode_state, encode_state};
pub(crate) use transaction::{decode_transaction, encode_transaction};
