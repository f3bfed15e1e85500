//! Waits until a queue or its value has changed. The watch is set by the read that is compared, so that no change falls
//! between them, and it is removed with the future.

use std::sync::Arc;

use lockkeeper_core::{Operation, QueueName, QueueView, Result, Value, ValueVersion};
use lockkeeper_zk_proto::message::{ErrorCode, ZkRequest};

use crate::error::{ClientError, ClientErrorKind};
use crate::link::{ClientCall, WatchWait};
use crate::lock::paths::QueuePath;
use crate::lock::session_core::SessionCore;
use crate::lock::value;

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
