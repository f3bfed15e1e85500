//! One request under way, and one watch that is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use lockkeeper_zk_proto::client::RequestId;
use lockkeeper_zk_proto::message::{ErrorCode, MultiResult, OpCode, Stat, ZkResponse};
use lockkeeper_zk_proto::watch::WatchId;
use tokio::sync::oneshot;

use crate::error::ClientError;
use crate::link::session::SessionLink;
use crate::link::state::{Happening, RequestOutcome};

#[derive(Debug)]
pub(crate) struct CallAnswer {
    /// The connection on which that became known; 0 if it was never sent.
    pub(crate) epoch: u64,
    /// The newest transaction that the server had applied: of a write that took effect, its own.
    pub(crate) zxid: i64,
    pub(crate) result: Result<ZkResponse, ClientError>,
}

impl CallAnswer {
    /// Turns the end of a request into an answer about this operation and path.
    pub(crate) fn of(RequestOutcome { epoch, zxid, result }: RequestOutcome, operation: OpCode, path: &str) -> Self {
        Self { epoch, zxid, result: result.map_err(|error| ClientError::of_request(&error, operation, path)) }
    }

    pub(crate) fn none(error: ClientError) -> Self {
        Self { epoch: 0, zxid: 0, result: Err(error) }
    }
}

/// A request that was sent, or is about to be. Dropping it takes the request back if it was not sent.
#[derive(Debug)]
pub(crate) struct ClientCall {
    link: Arc<SessionLink>,
    /// The request, until it is answered; or why it was not accepted.
    submitted: Result<Option<RequestId>, ClientError>,
    answered: oneshot::Receiver<RequestOutcome>,
    operation: OpCode,
    path: Box<str>,
}

impl ClientCall {
    pub(super) fn new(
        link: Arc<SessionLink>,
        submitted: Result<RequestId, ClientError>,
        answered: oneshot::Receiver<RequestOutcome>,
        operation: OpCode,
        path: &str,
    ) -> Self {
        Self { link, submitted: submitted.map(Some), answered, operation, path: path.into() }
    }

    pub(super) fn watch(&self) -> Option<WatchId> {
        self.submitted.as_ref().ok().copied().flatten().map(RequestId::watch)
    }

    pub(crate) async fn response(self) -> Result<ZkResponse, ClientError> {
        self.await.result
    }

    pub(crate) async fn data(self) -> Result<(Bytes, Stat), ClientError> {
        self.data_on().await.1
    }

    pub(crate) async fn data_on(self) -> (u64, Result<(Bytes, Stat), ClientError>) {
        self.read_on(|response| match response {
            ZkResponse::GetData { data, stat } => Some((data.unwrap_or_default(), stat)),
            _ => None,
        })
        .await
    }

    pub(crate) async fn stat(self) -> Result<Stat, ClientError> {
        self.read(|response| match response {
            ZkResponse::Stat(stat) => Some(stat),
            _ => None,
        })
        .await
    }

    pub(crate) async fn created(self) -> Result<(String, Stat), ClientError> {
        self.read(|response| match response {
            ZkResponse::Create2 { path, stat } => Some((path, stat)),
            _ => None,
        })
        .await
    }

    pub(crate) async fn children(self) -> Result<Vec<String>, ClientError> {
        self.read(|response| match response {
            ZkResponse::GetChildren { children } => Some(children),
            _ => None,
        })
        .await
    }

    pub(crate) async fn results(self) -> Result<Vec<MultiResult>, ClientError> {
        self.read(|response| match response {
            ZkResponse::Multi(results) => Some(results),
            _ => None,
        })
        .await
    }

    /// Waits for the response, and reads it; one to another question is an error.
    pub(crate) async fn read<T>(self, read: impl FnOnce(ZkResponse) -> Option<T> + Send) -> Result<T, ClientError> {
        self.read_on(read).await.1
    }

    async fn read_on<T>(mut self, read: impl FnOnce(ZkResponse) -> Option<T> + Send) -> (u64, Result<T, ClientError>) {
        let CallAnswer { epoch, result, .. } = (&mut self).await;
        let unexpected = || ClientError::unexpected(self.operation, &self.path);
        (epoch, result.and_then(|response| read(response).ok_or_else(unexpected)))
    }
}

/// Tells a node that is not there from a failure.
pub(crate) fn if_there<T>(found: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match found {
        Err(error) if error.is(ErrorCode::NoNode) => Ok(None),
        found => found.map(Some),
    }
}

/// A sync, and a read behind it in one segment: it shows all changes that any client knew before.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(super) sync: ClientCall,
    pub(super) read: ClientCall,
}

impl Synced {
    pub(crate) async fn ready(self) -> Result<ClientCall, ClientError> {
        self.sync.response().await.map(|_| self.read)
    }

    pub(crate) async fn data(self) -> Result<(Bytes, Stat), ClientError> {
        self.ready().await?.data().await
    }
}

impl Future for ClientCall {
    type Output = CallAnswer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallAnswer> {
        let this = &mut *self;
        if let Err(error) = &this.submitted {
            return Poll::Ready(CallAnswer::none(error.clone()));
        }
        let outcome = ready!(Pin::new(&mut this.answered).poll(context));
        this.submitted = Ok(None);
        Poll::Ready(match outcome {
            Ok(outcome) => CallAnswer::of(outcome, this.operation, &this.path),
            Err(_) => CallAnswer::none(ClientError::abandoned(this.operation, &this.path)),
        })
    }
}

impl Drop for ClientCall {
    fn drop(&mut self) {
        if let Ok(Some(id)) = self.submitted {
            self.link.cancel(id);
        }
    }
}

/// A watch that is waited for. Dropping it removes the watch.
#[derive(Debug)]
pub(crate) struct WatchWait {
    link: Arc<SessionLink>,
    watch: Option<WatchId>,
    event: oneshot::Receiver<Happening>,
}

impl WatchWait {
    pub(super) fn new(link: Arc<SessionLink>, watch: Option<WatchId>, event: oneshot::Receiver<Happening>) -> Self {
        Self { link, watch, event }
    }
}

/// Resolves to what the watch saw; `None` if it was never set, or the session is over.
impl Future for WatchWait {
    type Output = Option<Happening>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        let happening = ready!(Pin::new(&mut self.event).poll(context));
        self.watch = None;
        Poll::Ready(happening.ok())
    }
}

impl Drop for WatchWait {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            self.link.unwatch(watch);
        }
    }
}
