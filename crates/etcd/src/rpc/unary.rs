//! A request that goes on until it is answered or its connection ends, also if the caller gives it up.
//!
//! One that is given up would be reset, and etcd 3.5.0 to 3.5.6 can crash if that is a transaction that only reads
//! (etcd-io/etcd#14110, #14891).

use std::pin::Pin;
use std::task::{Context, Poll};

use lockkeeper_core::BoxFuture;
use lockkeeper_session::Failure;
use tokio::runtime::Handle;

/// A request under way.
pub(super) struct Asking<A: Send + 'static> {
    /// `None` once it is answered.
    answer: Option<BoxFuture<Result<A, Failure>>>,
    /// Where it goes on if it is given up, once it has begun.
    begun_on: Option<Handle>,
}

impl<A: Send + 'static> Asking<A> {
    pub(super) fn new(answer: impl Future<Output = Result<A, Failure>> + Send + 'static) -> Self {
        Self { answer: Some(Box::pin(answer)), begun_on: None }
    }
}

impl<A: Send + 'static> Future for Asking<A> {
    type Output = Result<A, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.begun_on.is_none() {
            self.begun_on = Some(Handle::current());
        }
        let answer = self.answer.as_mut().expect("it is not polled after its answer");
        let outcome = answer.as_mut().poll(context);
        if outcome.is_ready() {
            self.answer = None;
        }
        outcome
    }
}

impl<A: Send + 'static> Drop for Asking<A> {
    fn drop(&mut self) {
        if let (Some(answer), Some(runtime)) = (self.answer.take(), self.begun_on.take()) {
            runtime.spawn(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    /// Begins to ask or not, gives up, and returns whether the answer was taken in all the same.
    async fn goes_on(is_begun: bool) -> bool {
        let (answer, answered) = oneshot::channel::<()>();
        let is_taken = Arc::new(AtomicBool::new(false));
        let taken = is_taken.clone();
        let mut asking = Asking::new(async move {
            let _ = answered.await;
            taken.store(true, Ordering::SeqCst);
            Ok(())
        });
        if is_begun {
            let is_pending =
                std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut asking).poll(context).is_pending()));
            assert!(is_pending.await);
        }
        drop(asking);
        let _ = answer.send(());
        tokio::task::yield_now().await;
        is_taken.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_goes_on_if_it_has_begun() {
        assert!(goes_on(true).await);
        assert!(!goes_on(false).await);
    }
}
