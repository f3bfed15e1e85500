//! How the state and its changes are written: the bytes of log records and snapshots.
//!
//! What a file is, when it is flushed and how a torn one is handled is the matter of `storage`.

mod snapshot;
mod transaction;

pub(crate) use snapshot::{decode_state, encode_state};
pub(crate) use transaction::{decode_transaction, encode_transaction};
