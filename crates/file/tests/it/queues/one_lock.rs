//! The one lock that these tests use: its directory, and entries for its queues.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Enqueued, Entry, Lifetime, Mode, QueueName, Session};

use crate::support;

/// The lock that the tests use.
pub(super) const LOCK: &str = "q";

pub(super) fn directory_of(base: &Path) -> PathBuf {
    base.join("queues").join(LOCK)
}

/// The names in the lock's directory, in order; empty if it is gone.
pub(super) fn names_in(base: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory_of(base)) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

pub(super) fn lock() -> QueueName {
    support::queue(LOCK)
}

pub(super) fn entry(mode: Mode) -> Entry {
    let mut entry = support::entry();
    entry.mode = mode;
    entry
}

pub(super) fn frozen(reason: &str) -> Entry {
    let mut entry = support::entry();
    entry.lifetime = Lifetime::Persistent { reason: reason.into() };
    entry
}

pub(super) async fn join(session: &Arc<dyn Session>, queue: &QueueName, entry: Entry) -> Enqueued {
    soon("the place", session.enqueue_one(queue, entry)).await.unwrap()
}
