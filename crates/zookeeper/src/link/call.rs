//! One request under way, and one watch that is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lockkeeper_zk_proto::client::RequestId;
use lockkeeper_zk_proto::message::{OpCode, Response};
use lockkeeper_zk_proto::watch::WatchId;
use tokio::sync::oneshot;

use crate::error::ClientError;
use crate::link::{Happening, Link, Outcome};

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The connection on which that became known; 0 if it was never sent.
    pub(crate) epoch: u64,
    /// The newest transaction that the server had applied: of a write that took effect, its own.
    pub(crate) zxid: i64,
    pub(crate) result: Result<Response, ClientError>,
}

impl Answer {
    /// Turns the end of a request into an answer about this operation and path.
    pub(crate) fn of(Outcome { epoch, zxid, result }: Outcome, operation: OpCode, path: &str) -> Self {
        Self { epoch, zxid, result: result.map_err(|error| ClientError::of_request(&error, operation, path)) }
    }

    /// Says why there is no answer to a request.
    pub(crate) fn none(error: ClientError) -> Self {
        Self { epoch: 0, zxid: 0, result: Err(error) }
    }
}

/// A request that was sent, or is about to be. Dropping it takes the request back if it was not sent.
#[derive(Debug)]
pub(crate) struct Call {
    link: Arc<Link>,
    /// The request, until it is answered, if it is to be taken back; or why it was not accepted.
    submitted: Result<Option<RequestId>, ClientError>,
    answered: oneshot::Receiver<Outcome>,
    operation: OpCode,
    path: Box<str>,
}

impl Call {
    pub(super) fn new(
        link: Arc<Link>,
        submitted: Result<RequestId, ClientError>,
        answered: oneshot::Receiver<Outcome>,
        operation: OpCode,
        path: &str,
    ) -> Self {
        Self { link, submitted: submitted.map(Some), answered, operation, path: path.into() }
    }

    /// A request that goes on when the call is dropped.
    pub(crate) fn under_way(
        link: Arc<Link>,
        answered: oneshot::Receiver<Outcome>,
        operation: OpCode,
        path: &str,
    ) -> Self {
        Self { link, submitted: Ok(None), answered, operation, path: path.into() }
    }

    /// The watch that the request sets, if it does.
    pub(super) fn watch(&self) -> Option<WatchId> {
        self.submitted.as_ref().ok().copied().flatten().map(RequestId::watch)
    }

    /// Waits for the response only.
    pub(crate) async fn response(self) -> Result<Response, ClientError> {
        self.await.result
    }
}

impl Future for Call {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let this = &mut *self;
        if let Err(error) = &this.submitted {
            return Poll::Ready(Answer::none(error.clone()));
        }
        let outcome = ready!(Pin::new(&mut this.answered).poll(context));
        this.submitted = Ok(None);
        Poll::Ready(match outcome {
            Ok(outcome) => Answer::of(outcome, this.operation, &this.path),
            // There is no driver left that could answer.
            Err(_) => Answer::none(ClientError::session_lost(this.operation, &this.path)),
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Ok(Some(id)) = self.submitted {
            self.link.cancel(id);
        }
    }
}

/// A watch that is waited for. Dropping it removes the watch.
#[derive(Debug)]
pub(crate) struct Fired {
    link: Arc<Link>,
    watch: Option<WatchId>,
    event: oneshot::Receiver<Happening>,
}

impl Fired {
    pub(super) fn new(link: Arc<Link>, watch: Option<WatchId>, event: oneshot::Receiver<Happening>) -> Self {
        Self { link, watch, event }
    }
}

/// Resolves to what the watch saw; `None` if it was never set, or the session is over.
impl Future for Fired {
    type Output = Option<Happening>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        let happening = ready!(Pin::new(&mut self.event).poll(context));
        self.watch = None;
        Poll::Ready(happening.ok())
    }
}

impl Drop for Fired {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            self.link.unwatch(watch);
        }
    }
}
