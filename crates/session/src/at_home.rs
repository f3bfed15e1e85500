//! Tasks of a session, which no fork goes on with.

use std::pin::Pin;
use std::task::{Context, Poll};

use lockkeeper_core::Home;

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
