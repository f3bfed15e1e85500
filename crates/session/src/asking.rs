//! A request that goes on until it is answered or its connection ends, also if the caller gives it up.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::Clock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::unconstrained;

/// How long after the end of a connection its driver may take to hand out what it has read, on a busy machine.
const HANDED_OUT_WITHIN: Duration = Duration::from_secs(1);

/// Waits for the answer of a driver; none if its connection ends without one.
///
/// A driver takes requests from a queue. One that is queued just while the driver ends stays in the queue, without a
/// word, for as long as there is a sender: tokio's channels empty themselves only once.
pub async fn answered<A>(
    asking: impl Future<Output = A>,
    mut is_over: watch::Receiver<bool>,
    clock: &dyn Clock,
) -> Option<A> {
    let unanswered = async {
        // An error says that the driver was dropped.
        let _ = is_over.wait_for(|&is_over| is_over).await;
        clock.sleep_until(clock.now().saturating_add(HANDED_OUT_WITHIN)).await;
    };
    tokio::select! {
        biased;
        answer = asking => Some(answer),
        () = unanswered => None,
    }
}

/// A request under way. Dropping it takes nothing back: it goes on in a task.
///
/// Clients of services do not send what is given up before their driver has taken it. A caller would not know that:
/// what it gave up was called.
#[must_use = "its answer is read by awaiting it"]
pub struct Asking<A: Send + 'static> {
    state: State<A>,
    /// Where it goes on if it is given up.
    runtime: Handle,
}

enum State<A> {
    Pending(BoxFuture<A>),
    Answered(A),
    Over,
}

impl<A: Send + 'static> Asking<A> {
    /// Begins: the future is polled once, so that what it sends is queued before this returns. `runtime` is where it
    /// goes on if it is given up.
    pub fn begin(asking: impl Future<Output = A> + Send + 'static, runtime: Handle) -> Self {
        // Without a budget, which would let the first poll end before anything was queued.
        let mut asking: BoxFuture<A> = Box::pin(unconstrained(asking));
        let state = match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => State::Answered(answer),
            Poll::Pending => State::Pending(asking),
        };
        Self { state, runtime }
    }
}

impl<A: Send + Unpin + 'static> Future for Asking<A> {
    type Output = A;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        if let State::Pending(asking) = &mut self.state {
            let Poll::Ready(answer) = asking.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.state = State::Answered(answer);
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Pending(_) | State::Over => unreachable!("it is not polled after its answer"),
        }
    }
}

impl<A: Send + 'static> Drop for Asking<A> {
    fn drop(&mut self) {
        if let State::Pending(asking) = std::mem::replace(&mut self.state, State::Over) {
            self.runtime.spawn(asking);
        }
    }
}

impl<A: Send + 'static> fmt::Debug for Asking<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_answered = !matches!(self.state, State::Pending(_));
        formatter.debug_struct("Asking").field("is_answered", &is_answered).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use lockkeeper_core::clock::TestClock;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_driver_has_left_in_its_queue_is_given_up_after_its_end_and_not_before() {
        let (clock, over) = (TestClock::new(), watch::Sender::new(false));
        let mut asking = Box::pin(answered(std::future::pending::<()>(), over.subscribe(), &clock));
        tokio::time::timeout(2 * HANDED_OUT_WITHIN, &mut asking).await.expect_err("the driver lives");
        over.send_replace(true);
        let ended = clock.now();
        assert_eq!(asking.await, None);
        assert!(clock.now().saturating_duration_since(ended) >= HANDED_OUT_WITHIN);
    }

    #[tokio::test]
    async fn what_a_driver_hands_out_after_its_end_is_still_an_answer() {
        let (clock, over) = (TestClock::new(), watch::Sender::new(true));
        let (answer, asking) = oneshot::channel();
        let mut asking = Box::pin(answered(asking, over.subscribe(), &clock));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        answer.send(7).unwrap();
        assert_eq!(asking.await, Some(Ok(7)));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_goes_on() {
        let (answer, answered) = oneshot::channel::<()>();
        let is_taken = Arc::new(AtomicBool::new(false));
        let taken = is_taken.clone();
        let asking = async move {
            let _ = answered.await;
            taken.store(true, Ordering::SeqCst);
        };
        drop(Asking::begin(asking, Handle::current()));
        let _ = answer.send(());
        tokio::task::yield_now().await;
        assert!(is_taken.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn what_was_answered_at_once_is_still_told() {
        assert_eq!(Asking::begin(std::future::ready(7), Handle::current()).await, 7);
    }
}
