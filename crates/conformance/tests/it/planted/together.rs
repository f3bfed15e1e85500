//! Several entries at once of which some are missing, or that come one by one.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{BoxFuture, ENTRIES_MAX, Enqueued, Entry, QueueName, Result, Session, Ticket};

/// How long the later ones come after the first: time enough for the first to be seen alone.
const STEP: Duration = Duration::from_millis(2);

/// Takes one of too many entries before it refuses them.
pub(super) fn some_of(
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.len() > ENTRIES_MAX {
        drop(inner.enqueue_one(queue, entries[0].clone()));
    }
    inner.enqueue(queue, entries)
}

/// Takes the place of the first one twice, under another ticket.
pub(super) fn one_twice(
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if let Some(Entry { mode, owner, .. }) = entries.first() {
        let ticket = Ticket::mint().expect("the system gives randomness");
        drop(inner.enqueue_one(queue, Entry::new(ticket, *mode, owner.clone())));
    }
    inner.enqueue(queue, entries)
}

/// Takes one after the other.
pub(super) fn in_steps(
    inner: Arc<dyn Session>,
    queue: QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    Box::pin(async move {
        let mut joined = Vec::new();
        for entry in entries {
            joined.push(inner.enqueue_one(&queue, entry).await?);
            tokio::time::sleep(STEP).await;
        }
        Ok(joined)
    })
}
