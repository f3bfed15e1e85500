//! Storage on disk: a log of transactions, flushed before anything is answered, and snapshots.
//!
//! A directory holds the newest snapshot and the logs written since, each beginning where the last ended; the first is
//! made before its snapshot is. What was there before the newest snapshot is kept once, under names that are not read.
//! The directory is locked while a server uses it.
//!
//! - `directory`: the files, the lock, and who may read them;
//! - `log`: the form of a log, and how it is read back; `log_file`: the one that is being written;
//! - `snapshotting`: the form of a snapshot's file, and how one is taken while all goes on;
//! - `recovery`: from files to a state, and what it found, for the operator;
//! - `writer`: the thread that writes; `handle` is how the core uses it.

mod directory;
mod error;
mod handle;
mod log;
mod log_file;
mod recovery;
mod snapshotting;
mod writer;

#[cfg(test)]
mod tests;

pub use error::StorageError;
pub(crate) use handle::{OpenedStorage, Storage};
pub use recovery::Recovered;
pub(crate) use writer::StorageEvent;
