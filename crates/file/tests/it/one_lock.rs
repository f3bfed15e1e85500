//! The one lock that these tests use: its directory, and entries for its queues.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Enqueued, Entry, Lifetime, Mode, QueueName, Session};
use tempfile::TempDir;

use crate::support;

/// The lock that the tests use.
pub(crate) const LOCK: &str = "q";

/// A directory that is removed with its handle, and sessions in it.
pub(crate) fn sessions<const N: usize>() -> (TempDir, [Arc<dyn Session>; N]) {
    let directory = tempfile::tempdir().unwrap();
    let sessions = std::array::from_fn(|_| support::session(directory.path()));
    (directory, sessions)
}

pub(crate) fn directory_of(base: &Path) -> PathBuf {
    base.join("queues").join(LOCK)
}

/// The names in the lock's directory, in order; empty if it is gone.
pub(crate) fn names_in(base: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory_of(base)) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

pub(crate) fn lock() -> QueueName {
    support::queue(LOCK)
}

pub(crate) fn entry(mode: Mode) -> Entry {
    let mut entry = support::entry();
    entry.mode = mode;
    entry
}

pub(crate) fn frozen(reason: &str) -> Entry {
    let mut entry = support::entry();
    entry.lifetime = Lifetime::Persistent { reason: reason.into() };
    entry
}

pub(crate) async fn join(session: &Arc<dyn Session>, queue: &QueueName, entry: Entry) -> Enqueued {
    soon("the place", session.enqueue_one(queue, entry)).await.unwrap()
}

/// Leaves a pipe that no process has open, as a killed process does; returns its name.
pub(crate) fn leave_dead(base: &Path, number: u64, what: &str) -> String {
    let name = format!("{number:020}-{number:032x}-{what}-4121-web-backup");
    let path = directory_of(base).join(&name);
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    name
}
