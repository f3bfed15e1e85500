//! Requests that do not look at what they ask of whom.

use std::sync::Arc;

use lockkeeper_core::{Backend, BoxFuture, ContenderId, QueueName, Request, Result, Session};

/// Breaks a contender whatever its token is.
pub(super) fn break_anyhow(
    backend: &Arc<dyn Backend>,
    session: Arc<dyn Session>,
    queue: QueueName,
    contender: ContenderId,
) -> BoxFuture<Result<bool>> {
    let looking = backend.inspect(&queue);
    Box::pin(async move {
        let shown = looking.await?;
        let Some(token) = shown.into_iter().find(|other| other.id == contender).and_then(|other| other.token) else {
            return Ok(false);
        };
        session.request(&queue, &contender, Request::Break { token }).await
    })
}
