//! What is kept on disk: a log of transactions, flushed before anything is answered, and snapshots.
//!
//! A directory holds at most one valid snapshot, the newest, and the logs written since, each beginning where the last
//! ended. It is locked while a server uses it.
//!
//! - `directory`: the files and the lock; `rights`: who may read them; `apache`: what Apache ZooKeeper's look like;
//! - `log`: the form of a log, and how it is read back;
//! - `snapshot_file`: the form of a snapshot's file;
//! - `recovery`: from files to a state;
//! - `writer`: the thread that writes; `handle` is how the core uses it.

mod apache;
mod directory;
mod error;
mod handle;
mod log;
mod recovery;
mod rights;
mod snapshot_file;
mod writer;

#[cfg(test)]
mod tests;

pub use error::StorageError;
pub(crate) use handle::{Storage, StorageEvent};
