//! Waits for the contender ahead: a watch on its key alone, so that one departure wakes one waiter.

use std::sync::Arc;

use lockkeeper_core::{ConnectionNumber, ContenderId, Departure, Operation, QueueName, Result};
use lockkeeper_session::{Failure, Link as _};

use crate::proto::RangeRequest;
use crate::queue::inner::Inner;
use crate::queue::place::Place;
use crate::queue::subscription::{Notification, Subscription, WATCH_AGAIN_AFTER};
use crate::rpc::{Watched, key_range};
use crate::session::Link;

/// The key of the contender ahead, and the revision at which it was created.
type Ahead = (Vec<u8>, i64);

/// A wait under way.
pub(super) struct Wait {
    inner: Arc<Inner>,
    queue: QueueName,
    ahead: Ahead,
    mine: Option<Arc<Place>>,
    /// The connection that the contender ahead was seen on, and the watch; `None` if that connection is lost.
    subscription: Option<(Arc<Link>, Subscription)>,
}

impl Wait {
    /// Sets the watches: on our own contender first, so that its removal is known before the other's.
    pub(super) fn begin(
        inner: &Arc<Inner>,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> Self {
        let mine = mine.and_then(|mine| inner.place_of(queue, mine));
        if let Some(place) = &mine {
            inner.watch_now(place);
        }
        let ahead = inner.core.layout.contender(queue, ahead);
        let link = inner.core.life.present_link().filter(|link| link.connection_number() == seen);
        let subscription = link.map(|link| {
            let subscription = Subscription::begin(&link, Watched::Deletion(ahead.0.clone()));
            (link, subscription)
        });
        Self { inner: inner.clone(), queue: queue.clone(), ahead, mine, subscription }
    }

    pub(super) async fn finish(self) -> Result<Departure> {
        let Self { inner, queue, ahead, mine, subscription } = self;
        let removed = async {
            match &mine {
                Some(mine) => mine.bond.removed().await,
                None => std::future::pending().await,
            }
        };
        let departed = async {
            let Some((link, mut subscription)) = subscription else {
                return Ok(next_connection(&inner).await);
            };
            match departure(&inner, &link, &ahead, &mut subscription).await {
                Ok(true) => {
                    inner.told_on(link.number);
                    // A session that is lost says so itself.
                    let _ = inner.core.life.until_believable().await;
                    Ok(Departure::Gone)
                }
                Ok(false) => {
                    drop(subscription);
                    let again = inner.core.life.clock.now().saturating_add(WATCH_AGAIN_AFTER);
                    inner.core.until_other(&link, again).await;
                    Ok(next_connection(&inner).await)
                }
                Err(failure) => Err(inner.fail(failure, Operation::Wait, false, &queue)),
            }
        };
        let departure = tokio::select! {
            biased;
            () = removed => Ok(Departure::Recheck),
            _ = inner.core.life.bond().lost() => return Err(inner.over(Operation::Wait, &queue)),
            departure = departed => departure,
        };
        if let Some(mine) = &mine {
            mine.bond.explained().await;
        }
        match inner.core.life.check(Operation::Wait) {
            Ok(()) => departure,
            Err(error) => Err(error.at(&queue)),
        }
    }
}

/// Waits for the next connection; what was told on it may not be all.
async fn next_connection(inner: &Inner) -> Departure {
    // If none comes any more, the session is lost, and that is told instead.
    if inner.core.life.next_link().await.is_none() {
        std::future::pending::<()>().await;
    }
    Departure::Recheck
}

/// Waits until the contender ahead is gone; `false` if nothing more is told before.
async fn departure(
    inner: &Inner,
    link: &Link,
    ahead: &Ahead,
    subscription: &mut Subscription,
) -> Result<bool, Failure> {
    match subscription.created().await {
        Notification::Changed => return Ok(true),
        Notification::Over => return Ok(false),
        Notification::Created => {}
    }
    // What happened before the watch was made is not told. Some servers may miss to tell a deletion beside a
    // compaction, so that a look now and then is needed too.
    while !link.connection.is_over() {
        tokio::select! {
            biased;
            notification = subscription.changed() => return Ok(notification == Notification::Changed),
            is_gone = look_and_pause(inner, link, ahead) => if is_gone? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Looks whether the contender ahead is gone. If it is there, or that is not known, waits until the next look is due.
async fn look_and_pause(inner: &Inner, link: &Link, ahead: &Ahead) -> Result<bool, Failure> {
    let core = &inner.core;
    match is_there(inner, link, ahead).await {
        Ok(true) => core.life.clock.sleep_until(core.life.clock.now().saturating_add(core.timing.timeout)).await,
        Ok(false) => return Ok(true),
        Err(failure) if failure.is_passing() => core.after(&failure, link, core.life.deadline()).await,
        Err(failure) => return Err(failure),
    }
    Ok(false)
}

/// Another contender may have its key by now.
async fn is_there(inner: &Inner, link: &Link, (key, created): &Ahead) -> Result<bool, Failure> {
    let range = RangeRequest { keys_only: true, serializable: true, ..key_range(key.clone()) };
    let answer = inner.core.send(link, range, Operation::Wait, inner.core.life.deadline()).await?;
    Ok(answer.kvs.first().is_some_and(|kv| kv.create_revision == *created))
}
