//! Waits for the contender ahead, over the connection on which it was seen.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, ConnectionNumber, ContenderId, Departure, Operation, QueueName, Result};

use crate::Link as _;
use crate::queue::Place;
use crate::queue::queues::Queues;
use crate::queue::service::Service;

/// What is waited for, over one connection.
#[derive(Debug)]
pub struct Departing<S: Service> {
    /// The connection on which the contender ahead was seen.
    pub link: Arc<S::Link>,
    /// The queue.
    pub queue: QueueName,
    /// The contender ahead.
    pub ahead: ContenderId,
    /// Our own contender, unless we only look on.
    pub mine: Option<Arc<Place<S::Own>>>,
}

/// Begins to wait, now.
pub(super) fn begin<S: Service>(
    queues: &Arc<Queues<S>>,
    queue: &QueueName,
    mine: Option<&ContenderId>,
    ahead: &ContenderId,
    seen: ConnectionNumber,
) -> BoxFuture<Result<Departure>> {
    let mine = mine.and_then(|mine| queues.place_of(queue, mine));
    let link = queues.service.life().present_link().filter(|link| link.connection_number() == seen);
    let first = link.map(|link| {
        let (queue, ahead) = (queue.clone(), ahead.clone());
        let departing = Departing { link: link.clone(), queue, ahead, mine: mine.clone() };
        (link, S::depart(queues, departing))
    });
    let (queues, queue) = (queues.clone(), queue.clone());
    Box::pin(async move {
        let life = queues.service.life();
        let removed = async {
            match &mine {
                Some(mine) => mine.bond.removed().await,
                None => std::future::pending().await,
            }
        };
        let departed = async {
            let Some((link, departed)) = first else {
                return Ok(next_connection(&queues).await);
            };
            match departed.await {
                Ok(Departure::Gone) => {
                    // A session that is lost says so itself.
                    let _ = life.until_believable().await;
                    Ok(Departure::Gone)
                }
                Ok(Departure::Recheck) => Ok(Departure::Recheck),
                Err(failure) if failure.is_passing() => {
                    life.pause_after(&link, &failure).await;
                    Ok(next_connection(&queues).await)
                }
                Err(failure) => Err(queues.fail(failure, Operation::Wait, false, &queue)),
            }
        };
        let departure = tokio::select! {
            biased;
            () = removed => Ok(Departure::Recheck),
            _ = life.bond().lost() => return Err(queues.over(Operation::Wait, &queue)),
            departure = departed => departure,
        };
        if let Some(mine) = &mine {
            mine.bond.explained().await;
        }
        queues.check(Operation::Wait, &queue, &[])?;
        departure
    })
}

/// Waits for the next connection; what was told on it may not be all.
async fn next_connection<S: Service>(queues: &Queues<S>) -> Departure {
    // If none comes any more, the session is lost, and that is told instead.
    if queues.service.life().next_link().await.is_none() {
        std::future::pending::<()>().await;
    }
    Departure::Recheck
}
