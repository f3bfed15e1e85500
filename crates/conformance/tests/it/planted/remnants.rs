//! A backend that takes the living for remnants.

use std::sync::Arc;

use lockkeeper_core::{Backend, BoxFuture, ContenderInfo, Part, QueueName, Remnant, RemnantKind, Request, Result};

/// A contender that was seen, dead or alive.
#[derive(Debug)]
struct Seen(QueueName, ContenderInfo);

/// Lists all contenders.
pub(super) fn list(inner: Arc<dyn Backend>) -> BoxFuture<Result<Vec<Remnant>>> {
    Box::pin(async move {
        let mut remnants = Vec::new();
        for queue in inner.admin().queues("").await? {
            for info in inner.admin().inspect(&queue).await? {
                let place = info.id.to_string();
                remnants.push(Remnant::new(RemnantKind::Empty, place, Seen(queue.with_part(Part::Line), info)));
            }
        }
        Ok(remnants)
    })
}

/// Breaks one of them.
pub(super) fn remove(inner: &Arc<dyn Backend>, remnant: &Remnant) -> BoxFuture<Result<bool>> {
    let (opening, remnant) = (inner.session(), remnant.clone());
    Box::pin(async move {
        let session = opening.await?;
        let Seen(queue, info) = remnant.seen::<Seen>().expect("it was listed here");
        let Some(token) = info.token else { return Ok(false) };
        let broken = session.request(queue, &info.id, Request::Break { token }).await?;
        session.close().await?;
        Ok(broken)
    })
}
