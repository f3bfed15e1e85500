//! Waits until a queue or its value has changed. The watch is set by the read that is compared, so that no change falls
//! between them, and it is removed with the future.

use std::sync::Arc;

use lockkeeper_core::{Operation, QueueName, QueueView, Result, Value, ValueVersion};
use lockkeeper_zk_proto::message::{ErrorCode, Request};

use crate::error::{ClientError, ClientErrorKind};
use crate::link::{Call, Fired};
use crate::lock::inner::Inner;
use crate::lock::listing::Listing;
use crate::lock::paths::QueuePath;
use crate::lock::value;
use crate::lock::viewing::WatchingList;

/// A wait for a change of a queue.
pub(super) struct QueueWait {
    inner: Arc<Inner>,
    queue: QueueName,
    path: QueuePath,
    seen: QueueView,
}

impl QueueWait {
    /// Sends the first list.
    pub(super) fn begin(
        inner: Arc<Inner>,
        queue: &QueueName,
        seen: &QueueView,
    ) -> Result<(Self, (WatchingList, Fired))> {
        let path = inner.path_of(queue)?;
        let sent = inner.send_watching_list(&path, queue.part());
        Ok((Self { inner, queue: queue.clone(), path, seen: seen.clone() }, sent))
    }

    /// Waits until the queue differs from what was seen, and returns it.
    pub(super) async fn finish(self, sent: (WatchingList, Fired)) -> Result<QueueView> {
        let Self { inner, queue, path, seen } = self;
        let mut sent = sent;
        loop {
            let (list, fired) = sent;
            match list.listing().await {
                Ok(listing) => {
                    let (epoch, is_there) = (listing.epoch, listing.children.is_some());
                    let view = look(&inner, &queue, &path, &listing).await?;
                    if is_otherwise(&view, &seen) {
                        return Ok(view);
                    }
                    let fired = match is_there {
                        true => Some(fired),
                        // A list of a node that does not exist sets no watch.
                        false => until_made(&inner, &path, &queue).await?,
                    };
                    if let Some(fired) = fired {
                        wake(&inner, &queue, fired, epoch).await?;
                    }
                }
                Err(error) => after_failure(&inner, &queue, error).await?,
            }
            sent = inner.send_watching_list(&path, queue.part());
        }
    }
}

async fn look(inner: &Inner, queue: &QueueName, path: &QueuePath, listing: &Listing) -> Result<QueueView> {
    let view = inner.view(queue, path, listing, Operation::Wait).await?;
    if listing.misses_any(inner, path, queue.part(), &view) {
        inner.outlive(path).await;
    }
    Ok(view)
}

fn is_otherwise(view: &QueueView, seen: &QueueView) -> bool {
    view.connection != seen.connection || view.contenders != seen.contenders || view.elsewhere != seen.elsewhere
}

/// Sets a watch on a node that was not there; `None` if it is there by now.
async fn until_made(inner: &Inner, path: &QueuePath, queue: &QueueName) -> Result<Option<Fired>> {
    let request = Request::Exists { path: path.on_server(), watch: true };
    let (call, fired) = inner.watching(&request, path);
    match call.response().await {
        Err(error) if error.is(ErrorCode::NoNode) => Ok(Some(fired)),
        Ok(_) => Ok(None),
        Err(error) => after_failure(inner, queue, error).await.map(|()| None),
    }
}

/// Waits until a watch fires, or there is another connection.
async fn wake(inner: &Inner, queue: &QueueName, fired: Fired, epoch: u64) -> Result<()> {
    tokio::select! {
        biased;
        happening = fired => match happening {
            Some(_) => Ok(()),
            None => Err(inner.session_over(Operation::Wait, queue)),
        },
        _ = inner.link.until(|status| status.epoch != epoch || !status.phase.is_online()) => {
            inner.until_restored(Operation::Wait, queue).await
        }
    }
}

/// Waits for the next connection if a request failed because there was none; any other failure ends the wait.
async fn after_failure(inner: &Inner, queue: &QueueName, error: ClientError) -> Result<()> {
    match error.kind() {
        ClientErrorKind::ConnectionLost => inner.until_restored(Operation::Wait, queue).await,
        _ => Err(inner.fail(error, Operation::Wait, queue)),
    }
}

/// A wait for a change of a value.
pub(super) struct ValueWait {
    inner: Arc<Inner>,
    queue: QueueName,
    path: QueuePath,
    seen: Option<ValueVersion>,
    /// The connection that the first read was sent on: changes between two connections are not known.
    begun_on: u64,
}

/// A watch being set, whether or not the node is there, and a read after it.
type WatchingRead = (Call, Fired, Call);

impl ValueWait {
    /// Sends the first read.
    pub(super) fn begin(
        inner: Arc<Inner>,
        queue: &QueueName,
        seen: Option<ValueVersion>,
    ) -> Result<(Self, WatchingRead)> {
        let path = inner.path_of(queue)?;
        let sent = send_watching_read(&inner, &path);
        let begun_on = inner.link.status_now().epoch;
        Ok((Self { inner, queue: queue.clone(), path, seen, begun_on }, sent))
    }

    /// Waits until the value differs from the state that was seen, and reads it.
    pub(super) async fn finish(self, sent: WatchingRead) -> Result<Option<Value>> {
        let Self { inner, queue, path, seen, begun_on } = self;
        let mut sent = sent;
        loop {
            let (watch, fired, read) = sent;
            let answer = read.await;
            let epoch = answer.epoch;
            let stored = match watch.response().await {
                Err(error) if !error.is(ErrorCode::NoNode) => Err(error),
                _ => value::stored(answer.result, queue.part()),
            };
            match stored {
                Ok(stored) => {
                    let value = stored.and_then(|stored| stored.value());
                    if epoch != begun_on || value.as_ref().map(|value| value.version) != seen {
                        return Ok(value);
                    }
                    wake(&inner, &queue, fired, epoch).await?;
                }
                Err(error) => after_failure(&inner, &queue, error).await?,
            }
            sent = send_watching_read(&inner, &path);
        }
    }
}

fn send_watching_read(inner: &Inner, path: &QueuePath) -> WatchingRead {
    let (watch, fired) = inner.watching(&Request::Exists { path: path.on_server(), watch: true }, path);
    let read = inner.link.call(&Request::GetData { path: path.on_server(), watch: false }, path.shown());
    (watch, fired, read)
}

impl Inner {
    fn watching(&self, request: &Request, path: &QueuePath) -> (Call, Fired) {
        self.link.call_watching(request, path.shown())
    }
}
