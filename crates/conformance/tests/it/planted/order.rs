//! Calls that take effect at another time than that at which they were made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockkeeper_core::{BoxFuture, Enqueued, Entry, QueueName, Result, Session, Ticket};

/// One join of so many is overtaken by others.
const OVERTAKEN: u64 = 100;

/// How much later it takes effect.
const OVERTAKEN_BY: Duration = Duration::from_millis(20);

/// How long after its withdrawal a join takes effect whose reply was lost.
const LATE_BY: Duration = Duration::from_millis(200);

/// What was sent and what is held back.
#[derive(Debug, Default)]
pub(super) struct Order {
    sent: Mutex<BTreeMap<Ticket, Entry>>,
    held: Mutex<Vec<(QueueName, Ticket)>>,
}

impl Order {
    pub(super) fn note_sent(&self, entries: &[Entry]) {
        let entries = entries.iter().map(|entry| (entry.ticket, entry.clone()));
        locked(&self.sent).extend(entries);
    }

    /// Has the join of a withdrawn ticket take effect after all.
    pub(super) fn join_late(&self, inner: &Arc<dyn Session>, queue: &QueueName, ticket: Ticket) {
        let Some(entry) = locked(&self.sent).remove(&ticket) else {
            return;
        };
        let (inner, queue) = (inner.clone(), queue.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LATE_BY).await;
            drop(inner.enqueue_one(&queue, entry));
        });
    }

    /// Keeps a withdrawal for later.
    pub(super) fn hold(&self, queue: &QueueName, ticket: Ticket) {
        locked(&self.held).push((queue.clone(), ticket));
    }

    /// Makes the withdrawals that were kept.
    pub(super) fn let_go(&self, inner: &Arc<dyn Session>) {
        for (queue, ticket) in std::mem::take(&mut *locked(&self.held)) {
            drop(inner.withdraw(&queue, ticket));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it is locked")
}

/// Sends the joins, some of them later than those that come after.
pub(super) fn overtaken(
    inner: &Arc<dyn Session>,
    queue: QueueName,
    entries: Vec<Entry>,
    number: u64,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if !number.is_multiple_of(OVERTAKEN) {
        return inner.enqueue(&queue, entries);
    }
    let inner = inner.clone();
    let joining = tokio::spawn(async move {
        tokio::time::sleep(OVERTAKEN_BY).await;
        inner.enqueue(&queue, entries).await
    });
    Box::pin(async move { joining.await.expect("no join panics") })
}
