//! The file backend within one process: its sessions, and what the queues of a lock leave in its directory.

mod base_directory;
mod following;
mod one_lock;
mod queues;
mod session;
#[path = "../support/mod.rs"]
mod support;
