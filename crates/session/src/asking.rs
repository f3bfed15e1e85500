//! Requests under way: when an answer is late, what goes on if its caller gives it up, and what is ended then.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Backoff, BoxFuture};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::unconstrained;

use crate::{Effect, Failure, FailureKind};

/// How long after the end of a connection its driver may take to hand out what it has read, on a busy machine.
const HANDED_OUT_WITHIN: Duration = Duration::from_secs(1);

/// How long after a deadline an answer that is there already may take to be read.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// Waits until an answer is late. After a deadline that was slept through with the whole program, the answer may be
/// there and only has to be read.
pub async fn late(clock: &dyn Clock, deadline: BootInstant) {
    clock.sleep_until(deadline).await;
    clock.sleep_until(clock.now().saturating_add(READ_WITHIN)).await;
}

/// Waits for an answer until it is [`late`].
///
/// # Errors
///
/// Those of the request; that there was no answer in time.
pub fn in_time<T>(
    clock: &dyn Clock,
    deadline: BootInstant,
    asking: impl Future<Output = Result<T, Failure>>,
) -> impl Future<Output = Result<T, Failure>> {
    // By value it would stand twice in each of the futures around this one, and they are large.
    let asking = Box::pin(asking);
    async move {
        tokio::select! {
            biased;
            answer = asking => answer,
            () = late(clock, deadline) => Err(Failure::late(Effect::Unknown)),
        }
    }
}

/// Makes an attempt until this moment, and no longer; `effect` is what it may have had then.
///
/// # Errors
///
/// Those of the attempt; that it was too late.
pub fn until<T>(
    clock: &dyn Clock,
    deadline: BootInstant,
    effect: Effect,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> impl Future<Output = Result<T, Failure>> {
    // As above.
    let attempt = Box::pin(attempt);
    async move {
        tokio::select! {
            biased;
            outcome = attempt => outcome,
            () = clock.sleep_until(deadline) => Err(Failure::late(effect)),
        }
    }
}

/// Waits for something, if there is anything to wait for, and else without end.
pub async fn or_never<T>(waiting: Option<impl Future<Output = T> + Send>) -> T {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// When an attempt must have ended, so that each of those that are left has as much time: a server that is cut off
/// gives no answer at all.
#[must_use]
pub fn share(now: BootInstant, deadline: BootInstant, attempts_left: usize) -> BootInstant {
    let attempts_left = u32::try_from(attempts_left).unwrap_or(u32::MAX).max(1);
    now.saturating_add(deadline.saturating_duration_since(now) / attempts_left)
}

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
    state: AskingState<A>,
    /// Where it goes on if it is given up.
    runtime: Handle,
}

enum AskingState<A> {
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
            Poll::Ready(answer) => AskingState::Answered(answer),
            Poll::Pending => AskingState::Pending(asking),
        };
        Self { state, runtime }
    }
}

impl<A: Send + Unpin + 'static> Future for Asking<A> {
    type Output = A;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        if let AskingState::Pending(asking) = &mut self.state {
            let Poll::Ready(answer) = asking.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.state = AskingState::Answered(answer);
        }
        match std::mem::replace(&mut self.state, AskingState::Over) {
            AskingState::Answered(answer) => Poll::Ready(answer),
            AskingState::Pending(_) | AskingState::Over => unreachable!("it is not polled after its answer"),
        }
    }
}

impl<A: Send + 'static> Drop for Asking<A> {
    fn drop(&mut self) {
        if let AskingState::Pending(asking) = std::mem::replace(&mut self.state, AskingState::Over) {
            self.runtime.spawn(asking);
        }
    }
}

impl<A: Send + 'static> fmt::Debug for Asking<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_answered = !matches!(self.state, AskingState::Pending(_));
        formatter.debug_struct("Asking").field("is_answered", &is_answered).finish_non_exhaustive()
    }
}

/// Asks for what may be asked for twice, again in growing pauses while the service has more to do than it can, until
/// this moment.
///
/// # Errors
///
/// Why it was not had.
pub async fn until_taken<T, A>(clock: &dyn Clock, deadline: BootInstant, ask: impl Fn() -> A) -> Result<T, Failure>
where
    A: Future<Output = Result<T, Failure>>,
{
    let mut pauses = Backoff::OVERLOADED;
    loop {
        let failure = match ask().await {
            Err(failure) if failure.kind == FailureKind::Overloaded => failure,
            answer => return answer,
        };
        tokio::select! {
            biased;
            () = clock.sleep_until(deadline) => return Err(failure),
            () = pauses.rest(clock) => {}
        }
    }
}

/// Something that is ended if it is never claimed, as when a caller gives up.
#[derive(Debug)]
pub struct Unclaimed<T, E: FnOnce(T)>(Option<(T, E)>);

impl<T, E: FnOnce(T)> Unclaimed<T, E> {
    /// Takes it until it is claimed; `end` ends it if it never is.
    pub const fn new(made: T, end: E) -> Self {
        Self(Some((made, end)))
    }

    /// Hands it over.
    #[expect(clippy::missing_panics_doc, reason = "it is there until it is claimed, which is the end")]
    pub fn claim(mut self) -> T {
        self.0.take().expect("it is claimed once").0
    }
}

const THERE: &str = "it is there until it is claimed, which is the end";

impl<T, E: FnOnce(T)> Deref for Unclaimed<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.as_ref().expect(THERE).0
    }
}

impl<T, E: FnOnce(T)> DerefMut for Unclaimed<T, E> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.as_mut().expect(THERE).0
    }
}

impl<T, E: FnOnce(T)> Drop for Unclaimed<T, E> {
    fn drop(&mut self) {
        if let Some((made, end)) = self.0.take() {
            end(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

    /// Asks a service that turns this many requests away, for 20 s; returns the answer, and after how long it came.
    async fn asked(refusals: usize, failure: Failure) -> (Result<(), Failure>, Duration) {
        let (clock, asked) = (TestClock::new(), AtomicUsize::new(0));
        let begun = clock.now();
        let ask = || {
            let is_refused = asked.fetch_add(1, Ordering::SeqCst) < refusals;
            std::future::ready(if is_refused { Err(failure.clone()) } else { Ok(()) })
        };
        let answer = until_taken(&clock, begun.saturating_add(Duration::from_secs(20)), ask).await;
        (answer, clock.now().saturating_duration_since(begun))
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_with_too_much_to_do_is_asked_again_in_growing_pauses_and_no_other() {
        let busy = Failure::new(FailureKind::Overloaded, Effect::None, "busy");
        let (answer, took) = asked(4, busy.clone()).await;
        answer.expect("the fifth is taken");
        assert!((5_625..=7_510).contains(&took.as_millis()), "{took:?}");
        let (answer, took) = asked(usize::MAX, busy).await;
        assert_eq!((answer.unwrap_err().kind, took.as_secs()), (FailureKind::Overloaded, 20));
        let (answer, took) = asked(1, Failure::broken(Effect::None)).await;
        assert_eq!((answer.unwrap_err().kind, took), (FailureKind::Broken, Duration::ZERO));
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
