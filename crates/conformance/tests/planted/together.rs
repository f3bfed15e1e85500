//! Several entries at once of which some are missing, or that come one by one.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{BoxFuture, ENTRIES_MAX, Enqueued, Entry, QueueName, Result, Session};

/// How long the later ones come after the first: time enough for the first to be seen alone.
const STEP: Duration = Duration::from_millis(2);

/// Takes one of too many entries before it refuses them.
pub(super) fn some_of(
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.len() > ENTRIES_MAX {
        drop(inner.enqueue(queue, entries[0].clone()));
    }
    inner.enqueue_all(queue, entries)
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
            joined.push(inner.enqueue(&queue, entry).await?);
            tokio::time::sleep(STEP).await;
        }
        Ok(joined)
    })
}
