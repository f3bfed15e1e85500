//! Waits for the contender ahead: a watch on its key alone, so that one departure wakes one waiter.

use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Departure, Operation};
use lockkeeper_session::{Departing, Failure, Lookable as _};

use crate::proto::RangeRequest;
use crate::queue::guard;
use crate::queue::inner::Inner;
use crate::queue::service::{Etcd, Queues};
use crate::queue::subscription::{Notification, Subscription, WATCH_AGAIN_AFTER};
use crate::rpc::{Watched, key_range};
use crate::session::{Link, header};

/// The key of the contender ahead, and the revision at which it was created.
type Ahead = (Vec<u8>, i64);

/// Sets the watches, now: on our own contender first, so that its removal is known before the other's.
pub(super) fn begin(queues: &Arc<Queues>, departing: Departing<Etcd>) -> BoxFuture<Result<Departure, Failure>> {
    let Departing { link, queue, ahead, mine } = departing;
    if let Some(mine) = mine.filter(|mine| !mine.own.is_watched()) {
        guard::watch(queues, &link, &mine);
    }
    let inner = queues.service.inner.clone();
    let ahead = inner.core.layout.contender(&queue, &ahead);
    let mut subscription = Subscription::begin(&link, Watched::Deletion(ahead.0.clone()));
    Box::pin(async move {
        if let Some(revision) = departure(&inner, &link, &ahead, &mut subscription).await? {
            inner.note_told(&link, revision);
            return Ok(Departure::Gone);
        }
        drop(subscription);
        let again = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
        inner.core.until_other(&link, again).await;
        Ok(Departure::Recheck)
    })
}

/// Waits until the contender ahead is gone, and returns a revision by which it is; `None` if nothing more is told
/// before.
async fn departure(
    inner: &Inner,
    link: &Link,
    ahead: &Ahead,
    subscription: &mut Subscription,
) -> Result<Option<i64>, Failure> {
    match subscription.created().await {
        Notification::Changed => return Ok(Some(subscription.revision())),
        Notification::Over => return Ok(None),
        Notification::Created => {}
    }
    // What happened before the watch was made is not told. Some servers may miss to tell a deletion beside a
    // compaction, so that a look now and then is needed too.
    while !link.connection.is_over() {
        tokio::select! {
            biased;
            notification = subscription.changed() => {
                return Ok((notification == Notification::Changed).then(|| subscription.revision()));
            }
            gone_by = look_and_pause(inner, link, ahead) => if let Some(revision) = gone_by? {
                return Ok(Some(revision));
            }
        }
    }
    Ok(None)
}

/// Looks whether the contender ahead is gone, and by which revision. If it is there, waits until the next look is due.
async fn look_and_pause(inner: &Inner, link: &Link, ahead: &Ahead) -> Result<Option<i64>, Failure> {
    let gone_by = gone_by(inner, link, ahead).await?;
    if gone_by.is_none() {
        let (life, timeout) = (&inner.core.life, inner.core.timing.timeout);
        life.clock.sleep_until(life.clock.now().saturating_add(timeout)).await;
    }
    Ok(gone_by)
}

/// Another contender may have its key by now.
async fn gone_by(inner: &Inner, link: &Link, (key, created): &Ahead) -> Result<Option<i64>, Failure> {
    let range = RangeRequest { keys_only: true, serializable: true, ..key_range(key.clone()) };
    let answer = inner.core.send(link, range, Operation::Wait, inner.core.life.deadline()).await?;
    let is_there = answer.kvs.first().is_some_and(|kv| kv.create_revision == *created);
    let revision = header(&answer)?.revision;
    Ok((!is_there).then_some(revision))
}
