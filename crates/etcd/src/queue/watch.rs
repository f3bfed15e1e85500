//! Looks at a queue or a value, and tells when it may have changed. The watch is made before the look, so that no
//! change falls between them; it ends with the future.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Extent, QueueName, QueueView, Value};
use lockkeeper_session::{Failure, Watch};

use crate::queue::inner::Inner;
use crate::queue::subscription::{Notification, Subscription, WATCH_AGAIN_AFTER};
use crate::queue::value;
use crate::queue::view::By;
use crate::rpc::Watched;
use crate::session::Link;

/// Looks at a queue, and at what else stands under its lock.
pub(super) fn of_queue(inner: &Arc<Inner>, queue: &QueueName) -> Watch<Link, QueueView> {
    let queue = queue.clone();
    let watched = Watched::Prefix(inner.core.layout.lock(&queue));
    begin(inner, watched, move |inner, link| {
        let queue = queue.clone();
        Box::pin(async move { inner.view(&link, &queue, By::Member, Extent::Whole).await })
    })
}

/// Reads the value of a queue.
pub(super) fn of_value(inner: &Arc<Inner>, queue: &QueueName) -> Watch<Link, Option<Value>> {
    let queue = queue.clone();
    let watched = Watched::Key(inner.core.layout.value(&queue));
    begin(inner, watched, move |inner, link| {
        let queue = queue.clone();
        Box::pin(async move { value::of_member(&inner, &link, &queue).await })
    })
}

fn begin<T: Send + 'static>(
    inner: &Arc<Inner>,
    watched: Watched,
    look: impl Fn(Arc<Inner>, Arc<Link>) -> BoxFuture<Result<T, Failure>> + Send + Sync + 'static,
) -> Watch<Link, T> {
    let inner = inner.clone();
    Box::new(move |link| {
        let mut subscription = Subscription::begin(link, watched.clone());
        let (looking, inner, link) = (look(inner.clone(), link.clone()), inner.clone(), link.clone());
        Box::pin(async move {
            let notification = subscription.created().await;
            let seen = looking.await?;
            let told: BoxFuture<()> = Box::pin(async move {
                let (life, timeout) = (&inner.core.life, inner.core.timing.timeout);
                // Where the server refuses the watch, a look now and then stands in for it.
                if notification == Notification::Over {
                    return inner.core.until_other(&link, life.clock.now().saturating_add(WATCH_AGAIN_AFTER)).await;
                }
                // Some servers may miss to tell a change beside a compaction, so that one is needed anyway.
                tokio::select! {
                    biased;
                    _ = subscription.changed() => {}
                    () = life.clock.sleep_until(life.clock.now().saturating_add(timeout)) => {}
                }
            });
            Ok((seen, told))
        })
    })
}
