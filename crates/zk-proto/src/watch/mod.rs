//! The watches of one client: which of them an event ends, and what is set again after a reconnect.

mod path_watches;
mod registry;
mod restore;

pub use registry::{WATCHES_MAX, WatchId, WatchRegistry, WatchWish, WatchesFull};
pub use restore::RESTORE_BYTES_MAX;
