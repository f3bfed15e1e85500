//! A fence before an HTTP service: a `tower` layer that refuses requests of holders that were overtaken, from the check
//! to the response.
//!
//! `refusal` says whose token a request brings and what is answered without one, `lines` has one request of a lock at a
//! time. Where the greatest tokens are kept belongs to the store.

mod lines;
mod refusal;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::QueueName;
use crate::fence::http::lines::{Lines, RequestPlace};
use crate::fence::http::refusal::FenceRefusal;
use crate::fence::{Seen, TokenHeader, TokenStore};

pub use lines::WAITING_MAX;
pub use refusal::StoreFailure;

/// A [`Layer`] that lets a request pass only with a token that no greater one was seen before.
///
/// | request | answer |
/// | --- | --- |
/// | without the header [`TOKEN_HEADER`](crate::fence::TOKEN_HEADER) | 428 |
/// | with a malformed one, with two, or with a token of another lock | 400 |
/// | with a smaller token than the greatest seen | 412 |
/// | while [`WAITING_MAX`] requests of the lock wait | 503 |
/// | whose token the store cannot compare | 500, with a [`StoreFailure`] among its extensions |
/// | with the greatest token, or one that is greater | the service's own |
///
/// Refusals are problems (`application/problem+json`); that with 412 has the members `name`, `token` and
/// `greatest`. A request that passes has its [`TokenHeader`] among its extensions.
///
/// From the comparison to the response, one request of a lock runs at a time. A request whose client goes away in
/// between runs on to its response, in a task of its runtime: its write is never late. So bound the time of the service
/// within, since the next request waits for it. What a service does after it has responded, as in a body that it
/// streams, is not covered.
///
/// One layer, cloned, is one fence. Two fences on one resource, as in two processes, need one store between them, and
/// compare rightly, but do not wait for each other's requests: there, compare where the data are.
///
/// ```
/// use lockkeeper::fence::MemoryTokens;
/// use lockkeeper::fence::http::FenceLayer;
///
/// let by_one_lock = FenceLayer::new("ledger".parse()?, MemoryTokens::new());
/// // Each account has a lock: `/accounts/17` is behind `account/17`.
/// let by_path = FenceLayer::by(
///     |request| format!("account/{}", request.uri.path().strip_prefix("/accounts/")?).parse().ok(),
///     MemoryTokens::new(),
/// );
/// # let _ = (by_one_lock, by_path);
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FenceLayer(Arc<Fence>);

/// A service behind a [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    fence: Arc<Fence>,
    inner: S,
}

type LockOf = dyn Fn(&Parts) -> Option<QueueName> + Send + Sync;

struct Fence {
    lock_of: Box<LockOf>,
    store: Box<dyn TokenStore>,
    lines: Arc<Lines>,
}

impl FenceLayer {
    /// A fence for tokens of one lock.
    pub fn new(name: QueueName, store: impl TokenStore) -> Self {
        Self::by(move |_| Some(name.clone()), store)
    }

    /// A fence for the locks that `lock_of` names: the one that protects what a request asks for. Where it names none,
    /// the request is refused with 400.
    pub fn by(lock_of: impl Fn(&Parts) -> Option<QueueName> + Send + Sync + 'static, store: impl TokenStore) -> Self {
        let (lock_of, store) = (Box::new(lock_of), Box::new(store));
        Self(Arc::new(Fence { lock_of, store, lines: Arc::default() }))
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { fence: self.0.clone(), inner }
    }
}

impl<S, RequestBody, ResponseBody> Service<Request<RequestBody>> for Fenced<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Future: Send, Error: Send>
        + Clone
        + Send
        + 'static,
    RequestBody: Send + 'static,
    ResponseBody: From<String> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // What was found ready is this one; the clone is for the next request.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let (mut parts, body) = request.into_parts();
        match self.fence.enter(&parts) {
            Ok(entered) => {
                parts.extensions.insert(entered.header.clone());
                Box::pin(self.fence.clone().pass(entered, inner, Request::from_parts(parts, body)))
            }
            Err(refusal) => Box::pin(ready(Ok(refusal.response()))),
        }
    }
}

/// A request with a token, in the line of its lock.
struct EnteredRequest {
    name: QueueName,
    header: TokenHeader,
    place: RequestPlace,
}

impl Fence {
    fn enter(&self, parts: &Parts) -> Result<EnteredRequest, FenceRefusal> {
        let name = (self.lock_of)(parts).ok_or(FenceRefusal::NoLock)?;
        let header = refusal::read(&parts.headers, &name)?;
        let place = self.lines.enter(&name).ok_or(FenceRefusal::TooManyWait)?;
        Ok(EnteredRequest { name, header, place })
    }

    /// Waits for the request's turn, and passes it on if its token is not stale.
    async fn pass<S, RequestBody, ResponseBody>(
        self: Arc<Self>,
        entered: EnteredRequest,
        mut inner: S,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, S::Error>
    where
        S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Future: Send, Error: Send> + Send + 'static,
        RequestBody: Send + 'static,
        ResponseBody: From<String> + Send + 'static,
    {
        let EnteredRequest { name, header, place } = entered;
        let turn = place.turn().await;
        // In a task, so that a client that goes away does not end the turn before the write.
        let passing = tokio::spawn(async move {
            let answered = match self.compare(&name, &header).await {
                Ok(()) => inner.call(request).await,
                Err(refusal) => Ok(refusal.response()),
            };
            drop(turn);
            answered
        });
        match passing.await {
            Ok(answered) => answered,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Ok(FenceRefusal::RuntimeEnded.response()),
            },
        }
    }

    async fn compare(&self, name: &QueueName, header: &TokenHeader) -> Result<(), FenceRefusal> {
        let token = header.token();
        match self.store.see(name, token).await {
            Ok(Seen::Passes) => Ok(()),
            Ok(Seen::Stale(greatest)) => {
                Err(FenceRefusal::Stale { name: header.encoded_name().to_owned(), token, greatest })
            }
            Err(error) => Err(FenceRefusal::StoreFailed(error)),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fence").field("store", &self.store).field("lines", &self.lines).finish_non_exhaustive()
    }
}
