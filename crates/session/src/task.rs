//! Tasks of a session: the process in which they go on, and the panics of a driver.
//!
//! The drivers of protocols are other people's code, and some of it panics where a server answers what it did not
//! expect. Our own code does not; so what is caught here is theirs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use lockkeeper_core::Home;
use tokio::task::JoinError;

use crate::{Effect, Failure, FailureKind};

/// Has a task go on in this process alone. A fork that runs the same runtime never polls it, and one that drops that
/// runtime keeps what the task has: a connection that ends politely would end its parent's.
pub fn at_home<F: Future + Send>(task: F) -> impl Future<Output = F::Output> + Send {
    AtHome { home: Home::here(), task: Some(Box::pin(task)) }
}

struct AtHome<F> {
    home: Home,
    /// There until it is dropped.
    task: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for AtHome<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let is_left = self.home.is_left();
        match &mut self.task {
            Some(task) if !is_left => task.as_mut().poll(context),
            _ => Poll::Pending,
        }
    }
}

impl<F> Drop for AtHome<F> {
    fn drop(&mut self) {
        if self.home.is_left() {
            std::mem::forget(self.task.take());
        }
    }
}

/// Runs what a driver does over one connection.
///
/// # Errors
///
/// Those of the driver; [`Protocol`](FailureKind::Protocol), with what the panic said as its cause, if it panicked:
/// another attempt would meet the same answer.
pub async fn contained<T>(driving: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut driving = pin!(driving);
    std::future::poll_fn(|context| {
        // What has panicked is never polled again, and goes with its connection.
        let polled = catch_unwind(AssertUnwindSafe(|| driving.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(of_panic(&*panic))))
    })
    .await
}

/// Says why a task that asked a driver has no answer: it panicked, or its runtime has ended.
#[must_use]
pub fn of_task(ended: JoinError) -> Failure {
    ended.try_into_panic().map_or_else(|_| Failure::broken(Effect::Unknown), |panic| of_panic(&*panic))
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = "the driver of this service does not understand what the server answered; please report it";
    let failure = Failure::new(FailureKind::Protocol, Effect::Unknown, message);
    match said {
        Some(said) => failure.caused_by(said),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{Advice, Operation};

    use super::*;

    #[tokio::test]
    async fn a_driver_that_panics_at_an_answer_is_a_failure_for_good_that_says_so_in_one_line() {
        for said in ["no such plugin\nbacktrace", ""] {
            let driving = async {
                tokio::task::yield_now().await;
                std::panic::panic_any(said.to_owned())
            };
            let failure = contained::<()>(driving).await.expect_err("it has panicked");
            let error = failure.into_core(Operation::Connect, false);
            let told = format!("{error:#}");
            assert_eq!(error.advice(), Advice::Permanent, "{told}");
            assert!(told.contains("does not understand") && !told.contains('\n'), "{told}");
            assert_eq!(told.contains("no such plugin"), !said.is_empty(), "{told}");
        }
        assert_eq!(contained(async { Ok(7) }).await.ok(), Some(7));
    }
}
