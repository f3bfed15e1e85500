//! Watches: which connection gets which events.

mod table;
mod watches;

pub(crate) use watches::ServerWatches;
