//! Requests that do not check their contender.

use std::sync::Arc;

use lockkeeper_core::{Backend, BoxFuture, ContenderId, QueueName, Request, Result, Session};

/// Breaks a contender with any token.
pub(super) fn break_anyhow(
    backend: &Arc<dyn Backend>,
    session: Arc<dyn Session>,
    queue: QueueName,
    contender: ContenderId,
) -> BoxFuture<Result<bool>> {
    let looking = backend.admin().inspect(&queue);
    Box::pin(async move {
        let shown = looking.await?;
        let Some(token) = shown.into_iter().find(|other| other.id == contender).and_then(|other| other.token) else {
            return Ok(false);
        };
        session.request(&queue, &contender, Request::Break { token }).await
    })
}
