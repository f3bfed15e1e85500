//! Waits until a queue or a value looks otherwise. The watch is made before the look that is compared, so that no
//! change falls between them; it ends with the future.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Operation, QueueName, QueueView, Result, Value, ValueVersion};
use lockkeeper_session::Failure;

use crate::queue::inner::Inner;
use crate::queue::subscription::{Notification, Subscription, WATCH_AGAIN_AFTER};
use crate::queue::value;
use crate::rpc::Watched;
use crate::session::Link;

type Look<T> = Box<dyn Fn(Arc<Inner>, Arc<Link>) -> BoxFuture<Result<T, Failure>> + Send + Sync>;

/// A wait under way.
struct Change<T> {
    inner: Arc<Inner>,
    queue: QueueName,
    watched: Watched,
    look: Look<T>,
    is_awaited: Box<dyn Fn(&T) -> bool + Send + Sync>,
}

/// Waits until a queue looks otherwise than `seen`.
pub(super) fn of_queue(inner: &Arc<Inner>, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
    let (name, seen) = (queue.clone(), seen.clone());
    let look: Look<QueueView> = Box::new(move |inner, link| {
        let name = name.clone();
        Box::pin(async move { inner.view_of_member(&name, &link).await })
    });
    let is_awaited = move |view: &QueueView| {
        view.connection != seen.connection || view.contenders != seen.contenders || view.elsewhere != seen.elsewhere
    };
    Change {
        inner: inner.clone(),
        queue: queue.clone(),
        watched: Watched::Prefix(inner.core.layout.lock(queue)),
        look,
        is_awaited: Box::new(is_awaited),
    }
    .begin()
}

/// Waits until a value is in another state than `seen`.
pub(super) fn of_value(
    inner: &Arc<Inner>,
    queue: &QueueName,
    seen: Option<ValueVersion>,
) -> BoxFuture<Result<Option<Value>>> {
    let name = queue.clone();
    let look: Look<Option<Value>> = Box::new(move |inner, link| {
        let name = name.clone();
        Box::pin(async move { value::of_member(&inner, &link, &name).await })
    });
    Change {
        inner: inner.clone(),
        queue: queue.clone(),
        watched: Watched::Key(inner.core.layout.value(queue)),
        look,
        is_awaited: Box::new(move |value: &Option<Value>| value.as_ref().map(|value| value.version) != seen),
    }
    .begin()
}

impl<T: Send + 'static> Change<T> {
    fn begin(self) -> BoxFuture<Result<T>> {
        let first = self.inner.core.life.present_link().map(|link| self.subscribe(link));
        Box::pin(self.finish(first))
    }

    fn subscribe(&self, link: Arc<Link>) -> (Arc<Link>, Subscription) {
        let subscription = Subscription::begin(&link, self.watched.clone());
        (link, subscription)
    }

    async fn finish(self, first: Option<(Arc<Link>, Subscription)>) -> Result<T> {
        let (inner, queue) = (self.inner.clone(), self.queue.clone());
        let over = || inner.over(Operation::Wait, &queue);
        let changed = async {
            let mut present = first;
            loop {
                let (link, subscription) = match present.take() {
                    Some(present) => present,
                    None => self.subscribe(inner.core.life.next_link().await.ok_or_else(over)?),
                };
                match self.until_awaited(&link, subscription).await {
                    Ok(Some(awaited)) => return Ok(awaited),
                    Ok(None) => {
                        let again = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
                        inner.core.until_other(&link, again).await;
                    }
                    Err(failure) if failure.is_passing() => {
                        inner.core.after(&failure, &link, inner.core.life.deadline()).await;
                    }
                    Err(failure) => return Err(inner.fail(failure, Operation::Wait, false, &queue)),
                }
            }
        };
        tokio::select! {
            biased;
            _ = inner.core.life.bond().lost() => Err(over()),
            changed = changed => changed,
        }
    }

    /// Looks at each change until the result is what is awaited; `None` if the watch ends before.
    async fn until_awaited(&self, link: &Arc<Link>, mut subscription: Subscription) -> Result<Option<T>, Failure> {
        let mut notification = subscription.created().await;
        loop {
            let seen = (self.look)(self.inner.clone(), link.clone()).await?;
            if (self.is_awaited)(&seen) {
                return Ok(Some(seen));
            }
            // Where the server refuses the watch, a look now and then stands in for it.
            if notification == Notification::Over {
                return Ok(None);
            }
            notification = subscription.changed().await;
        }
    }
}
