//! What the queues of one lock leave in its directory, and how that ends: parts, batches, frozen places, requests,
//! values, and watching all of them.

mod changes;
mod frozen;
mod held_up;
mod replaced;
mod requests;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_core::{Enqueued, Entry, Lifetime, Mode, QueueName, Session};

/// The lock that the tests use.
const LOCK: &str = "q";

fn directory_of(base: &Path) -> PathBuf {
    base.join("queues").join(LOCK)
}

/// The names in the lock's directory, in order; empty if it is gone.
fn names_in(base: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory_of(base)) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn lock() -> QueueName {
    support::queue(LOCK)
}

fn entry(mode: Mode) -> Entry {
    let mut entry = support::entry();
    entry.mode = mode;
    entry
}

fn frozen(reason: &str) -> Entry {
    let mut entry = support::entry();
    entry.lifetime = Lifetime::Persistent { reason: reason.into() };
    entry
}

async fn join(session: &Arc<dyn Session>, queue: &QueueName, entry: Entry) -> Enqueued {
    support::soon(session.enqueue_one(queue, entry)).await.unwrap()
}
