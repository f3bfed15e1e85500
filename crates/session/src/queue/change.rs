//! Waits until a queue or a value looks otherwise. The watch begins before the look that is compared is made, so that
//! no change falls between them.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Operation, QueueName, QueueView, Result, Value, ValueVersion};

use crate::Failure;
use crate::queue::entries::Coverage;
use crate::queue::queues::Queues;
use crate::queue::service::{Service, Watch};

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
    begin(queues, queue, settled, move |view| {
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
    begin(queues, queue, watch, move |value| value.as_ref().map(|value| value.version) == seen)
}

/// Looks now, and again after each change.
fn begin<S: Service, T: Send + 'static>(
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
