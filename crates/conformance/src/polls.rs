//! A future dropped after a given number of polls.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls `future` at most `polls_max` times; `None` if it was pending each time, or if `polls_max` is 0.
///
/// The future is dropped before the answer is given.
pub async fn at_most<Running: Future>(polls_max: usize, future: Running) -> Option<Running::Output> {
    AtMost { future: Box::pin(future), polls_left: polls_max }.await
}

struct AtMost<Running> {
    future: Pin<Box<Running>>,
    polls_left: usize,
}

impl<Running: Future> Future for AtMost<Running> {
    type Output = Option<Running::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(polls_left) = self.polls_left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.polls_left = polls_left;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls_left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_with_two_await_points_is_dropped_at_each_and_then_completes() {
        let work = || async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            7
        };
        let mut outcomes = Vec::new();
        for polls_max in 0..5 {
            outcomes.push(at_most(polls_max, work()).await);
        }
        assert_eq!(outcomes, [None, None, None, Some(7), Some(7)]);
    }
}
