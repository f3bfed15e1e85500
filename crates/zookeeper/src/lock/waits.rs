//! Waits for the contender ahead, and until a queue or its value has changed.
//!
//! The contender ahead is waited for by a watch on it and one on our own node, set together. A contender of this
//! session needs no watch: its owner deletes its node over the same connection, and is answered there. A change is
//! waited for by a watch that is set by the read that is compared, so that none falls between them, and that is removed
//! with the future.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockkeeper_core::{
    ConnectionNumber, ContenderId, Departure, Operation, QueueName, QueueView, Result, Ticket, Value, ValueVersion,
};
use lockkeeper_session::or_never;
use lockkeeper_zk_proto::message::{ErrorCode, WatchEventKind, ZkRequest};

use crate::error::{ClientError, ClientErrorKind};
use crate::link::{ClientCall, Happening, WatchWait};
use crate::lock::paths::QueuePath;
use crate::lock::place::{NodePlace, PlaceEnd};
use crate::lock::prover::{self, until_believable};
use crate::lock::session_core::SessionCore;
use crate::lock::value;

pub(super) struct DepartureWait {
    inner: Arc<SessionCore>,
    queue: QueueName,
    path: QueuePath,
    ahead: ContenderId,
    mine: Option<Mine>,
    seen: u64,
}

/// How the end of the contender ahead is heard of.
enum ContenderAhead {
    /// It is one of this session's.
    Ours(Arc<NodePlace>),
    /// By a watch on its node.
    Watched(ClientCall, WatchWait),
}

/// Our own place in the queue; it counts as waiting while this value lives.
struct Mine {
    inner: Arc<SessionCore>,
    ticket: Ticket,
    place: Arc<NodePlace>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.inner.places().wait_ends(self.ticket);
        // A holder is proved more often than a waiter.
        self.inner.wake_prover();
    }
}

impl DepartureWait {
    /// Sends the requests that set the watches: on our own node first, so that its removal is known before the other's.
    pub(super) fn begin(
        inner: Arc<SessionCore>,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> Result<impl Future<Output = Result<Departure>> + Send + use<>> {
        let path = inner.path_of(queue)?;
        let mine = mine.and_then(|mine| inner.place_of(mine)).map(|(ticket, place)| {
            inner.places().wait_begins(ticket);
            Mine { inner: inner.clone(), ticket, place }
        });
        let ours = inner.own_place(ahead);
        if let Some(Mine { place, .. }) = &mine {
            prover::watch_own(&inner, place);
        }
        // A session that takes no more requests sets no watch on our own node.
        let is_guarded = |mine: &Mine| mine.place.is_watched.load(Ordering::Acquire);
        let contender = match ours.filter(|_| mine.as_ref().is_none_or(is_guarded)) {
            Some(place) => ContenderAhead::Ours(place),
            None => {
                let request = ZkRequest::GetData { path: path.child_on_server(ahead.as_str()), watch: true };
                let (call, fired) = inner.link.call_watching(&request, path.shown());
                ContenderAhead::Watched(call, fired)
            }
        };
        let wait = Self { inner, queue: queue.clone(), path, ahead: ahead.clone(), mine, seen: seen.0 };
        Ok(wait.finish(contender))
    }

    /// Waits until the contender ahead is gone, or a new look is needed.
    async fn finish(self, ahead: ContenderAhead) -> Result<Departure> {
        let removal = or_never(self.mine.as_ref().map(|mine| mine.place.bond.removed()));
        let departure = tokio::select! {
            biased;
            () = removal => {
                if let Some(mine) = &self.mine {
                    mine.place.bond.explained().await;
                }
                Departure::Recheck
            }
            departure = async {
                match ahead {
                    ContenderAhead::Ours(place) => self.ended(&place).await,
                    ContenderAhead::Watched(call, fired) => self.watched(call, fired).await,
                }
            } => departure?,
        };
        if let (Departure::Gone, Some(mine)) = (departure, &self.mine) {
            until_believable(&self.inner, &mine.place, Operation::Wait).await?;
        }
        Ok(departure)
    }

    /// Waits until a contender of this session has left. That counts only if our own node was not removed before.
    async fn ended(&self, ahead: &NodePlace) -> Result<Departure> {
        let end = async {
            match (ahead.ended().await, &self.mine) {
                (PlaceEnd::Deleted { epoch }, _) if epoch != self.seen => Departure::Recheck,
                (PlaceEnd::Deleted { .. }, Some(mine)) => {
                    // As with a watch on the other: a removal of our own that came before has been told by now.
                    if *mine.place.is_guarded.wait().await { Departure::Gone } else { Departure::Recheck }
                }
                (PlaceEnd::Deleted { .. }, None) => Departure::Gone,
                (PlaceEnd::Unknown, _) => Departure::Recheck,
            }
        };
        // An answer on the next connection proves nothing.
        let end = self.inner.on_connection(self.seen, &self.queue, end).await?;
        Ok(end.unwrap_or(Departure::Recheck))
    }

    /// Waits for the event of a watch.
    ///
    /// The contender counts as gone only if that was seen on the connection that the view was seen on: after a
    /// reconnection, events come in the order of the client's own list.
    async fn watched(&self, call: ClientCall, fired: WatchWait) -> Result<Departure> {
        let answer = call.await;
        if answer.result.as_ref().is_err_and(|error| error.is(ErrorCode::NoAuth)) {
            return self.unread().await;
        }
        let is_same_connection = answer.epoch == self.seen;
        match answer.result {
            Ok(_) if is_same_connection => {}
            Ok(_) => return Ok(Departure::Recheck),
            Err(error) if error.is(ErrorCode::NoNode) && is_same_connection => return Ok(Departure::Gone),
            Err(error) if error.is(ErrorCode::NoNode) => return Ok(Departure::Recheck),
            Err(error) => return self.after_failure(error).await,
        }
        // The watch ends with its connection: an event on the next one proves nothing.
        Ok(match self.inner.fired(fired, self.seen, &self.queue).await? {
            Some(Happening { epoch, kind: WatchEventKind::NodeDeleted }) if epoch == self.seen => Departure::Gone,
            _ => Departure::Recheck,
        })
    }

    /// Waits for a contender that may be listed but not read. Servers tell of its end to clients that
    /// watch the list, and not to clients that watch a node that they may not read.
    async fn unread(&self) -> Result<Departure> {
        let (list, fired) = self.inner.send_watching_list(&self.path, self.queue.part());
        let listing = match list.listing().await {
            Ok(listing) => listing,
            Err(error) => return self.after_failure(error).await,
        };
        let is_there = |children: Vec<String>| children.iter().any(|child| *child == self.ahead.as_str());
        if listing.epoch == self.seen && listing.children.is_some_and(is_there) {
            self.inner.fired(fired, self.seen, &self.queue).await?;
        }
        Ok(Departure::Recheck)
    }

    async fn after_failure(&self, error: ClientError) -> Result<Departure> {
        self.inner.after_failure(&self.queue, error).await.map(|()| Departure::Recheck)
    }
}

/// Sends the first list; the future waits until the queue differs from the last list, and returns it.
pub(super) fn queue_changed(
    inner: Arc<SessionCore>,
    queue: &QueueName,
    seen: &QueueView,
) -> Result<impl Future<Output = Result<QueueView>> + Send + use<>> {
    let path = inner.path_of(queue)?;
    let mut sent = inner.send_watching_list(&path, queue.part());
    let (queue, seen) = (queue.clone(), seen.clone());
    Ok(async move {
        loop {
            let (list, fired) = sent;
            match list.listing().await {
                Ok(listing) => {
                    let (epoch, is_there) = (listing.epoch, listing.children.is_some());
                    let view = inner.outlived_view(&queue, &path, &listing, Operation::Wait).await?;
                    if is_otherwise(&view, &seen) {
                        return Ok(view);
                    }
                    let fired = match is_there {
                        true => Some(fired),
                        // A list of a node that does not exist sets no watch.
                        false => until_made(&inner, &path, &queue).await?,
                    };
                    if let Some(fired) = fired {
                        inner.fired(fired, epoch, &queue).await?;
                    }
                }
                Err(error) => inner.after_failure(&queue, error).await?,
            }
            sent = inner.send_watching_list(&path, queue.part());
        }
    })
}

fn is_otherwise(view: &QueueView, seen: &QueueView) -> bool {
    view.connection != seen.connection || view.contenders != seen.contenders || view.elsewhere != seen.elsewhere
}

/// Sets a watch on a node that was not there; `None` if it is there by now.
async fn until_made(inner: &SessionCore, path: &QueuePath, queue: &QueueName) -> Result<Option<WatchWait>> {
    let (call, fired) = watch_node(inner, path);
    match call.response().await {
        Err(error) if error.is(ErrorCode::NoNode) => Ok(Some(fired)),
        Ok(_) => Ok(None),
        Err(error) => inner.after_failure(queue, error).await.map(|()| None),
    }
}

/// Sets a watch whether the node is there or not.
fn watch_node(inner: &SessionCore, path: &QueuePath) -> (ClientCall, WatchWait) {
    inner.link.call_watching(&ZkRequest::Exists { path: path.on_server(), watch: true }, path.shown())
}

/// Sends the first read; the future waits until the value differs from the state that was seen, and returns it.
pub(super) fn value_changed(
    inner: Arc<SessionCore>,
    queue: &QueueName,
    seen: Option<ValueVersion>,
) -> Result<impl Future<Output = Result<Option<Value>>> + Send + use<>> {
    let path = inner.path_of(queue)?;
    let mut sent = send_watching_read(&inner, &path);
    // Changes between two connections are not known.
    let begun_on = inner.link.status_now().epoch;
    let queue = queue.clone();
    Ok(async move {
        loop {
            let ((watch, fired), read) = sent;
            let (epoch, found) = read.data_on().await;
            let stored = match watch.response().await {
                Err(error) if !error.is(ErrorCode::NoNode) => Err(error),
                _ => value::stored(found, queue.part()),
            };
            match stored {
                Ok(stored) => {
                    let value = stored.and_then(|stored| stored.value());
                    if epoch != begun_on || value.as_ref().map(|value| value.version) != seen {
                        return Ok(value);
                    }
                    inner.fired(fired, epoch, &queue).await?;
                }
                Err(error) => inner.after_failure(&queue, error).await?,
            }
            sent = send_watching_read(&inner, &path);
        }
    })
}

/// Sends a watch, and a read after it.
fn send_watching_read(inner: &SessionCore, path: &QueuePath) -> ((ClientCall, WatchWait), ClientCall) {
    let watch = watch_node(inner, path);
    let read = inner.link.call(&ZkRequest::GetData { path: path.on_server(), watch: false }, path.shown());
    (watch, read)
}

impl SessionCore {
    /// Waits for the next connection if a request failed because there was none; any other failure ends the wait.
    pub(super) async fn after_failure(&self, queue: &QueueName, error: ClientError) -> Result<()> {
        match error.kind() {
            ClientErrorKind::ConnectionLost => self.until_restored(Operation::Wait, queue).await,
            _ => Err(self.fail(error, Operation::Wait, queue)),
        }
    }
}
