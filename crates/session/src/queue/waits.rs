//! Waits for the contender ahead, over the connection on which it was seen, and until a queue or a value looks
//! otherwise. The watch begins before the look that is compared is made, so that no change falls between them.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ConnectionNumber, ContenderId, Departure, Operation, QueueName, QueueView, Result, Value, ValueVersion,
};

use crate::queue::entries::Coverage;
use crate::queue::service::{Departing, Queues, Service, Watch};
use crate::{Failure, Link as _};

/// Begins to wait for a departure, now.
pub(super) fn of_departure<S: Service>(
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
                Ok(departure) => {
                    // A session that is lost says so itself.
                    let _ = life.until_believable().await;
                    Ok(departure)
                }
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

/// Waits until a queue looks otherwise than `seen`.
pub(super) fn of_queue<S: Service>(
    queues: &Arc<Queues<S>>,
    queue: &QueueName,
    seen: &QueueView,
) -> BoxFuture<Result<QueueView>> {
    let watch = S::watch_queue(queues, queue);
    let (watching, name) = (queues.clone(), queue.clone());
    let settled: Watch<S::Link, QueueView> = Box::new(move |link| {
        let asked_at = watching.service.life().clock.now();
        let looking = watch(link);
        let (queues, name) = (watching.clone(), name.clone());
        Box::pin(async move {
            let (view, told) = looking.await?;
            queues.settle(&name, &view, &Coverage::Whole, asked_at).await;
            Ok((view, told))
        })
    });
    let seen = seen.clone();
    look_until_changed(queues, queue, settled, move |view| {
        view.connection == seen.connection && view.contenders == seen.contenders && view.elsewhere == seen.elsewhere
    })
}

/// Waits until a value is in another state than `seen`.
pub(super) fn of_value<S: Service>(
    queues: &Arc<Queues<S>>,
    queue: &QueueName,
    seen: Option<ValueVersion>,
) -> BoxFuture<Result<Option<Value>>> {
    let watch = S::watch_value(queues, queue);
    look_until_changed(queues, queue, watch, move |value| value.as_ref().map(|value| value.version) == seen)
}

/// Looks now, and again after each change.
fn look_until_changed<S: Service, T: Send + 'static>(
    queues: &Arc<Queues<S>>,
    queue: &QueueName,
    watch: Watch<S::Link, T>,
    is_same: impl Fn(&T) -> bool + Send + Sync + 'static,
) -> BoxFuture<Result<T>> {
    let first = queues.service.life().present_link().map(|link| {
        let looking = watch(&link);
        (link, looking)
    });
    let (queues, queue) = (queues.clone(), queue.clone());
    Box::pin(async move {
        let life = queues.service.life();
        let changed = async {
            let mut present = first;
            loop {
                let (link, looking) = match present.take() {
                    Some(present) => present,
                    None => {
                        let link = life.next_link().await.ok_or_else(Failure::session_gone)?;
                        let looking = watch(&link);
                        (link, looking)
                    }
                };
                match looking.await {
                    Ok((seen, told)) if is_same(&seen) => told.await,
                    Ok((changed, _)) => return Ok(changed),
                    Err(failure) if failure.is_passing() => life.pause_after(&link, &failure).await,
                    Err(failure) => return Err(failure),
                }
            }
        };
        tokio::select! {
            biased;
            _ = life.bond().lost() => Err(queues.over(Operation::Wait, &queue)),
            changed = changed => changed.map_err(|failure| queues.fail(failure, Operation::Wait, false, &queue)),
        }
    })
}
