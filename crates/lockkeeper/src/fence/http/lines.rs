//! One request of a lock at a time, in the order in which they came.
//!
//! A lock has a line only while requests of it are there, so that names which clients choose take no room for long.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::QueueName;

/// How many requests of one lock wait at most while another of its requests runs; one more is answered with 503.
pub const WAITING_MAX: usize = 256;

/// The lines of all locks.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<QueueName, RequestLine>>);

#[derive(Debug, Default)]
struct RequestLine {
    /// How many requests wait or run.
    requests: usize,
    running: Arc<tokio::sync::Mutex<()>>,
}

/// A request's place in the line of its lock, which is left by dropping it.
#[derive(Debug)]
pub(super) struct RequestPlace {
    lines: Arc<Lines>,
    name: QueueName,
    running: Arc<tokio::sync::Mutex<()>>,
}

/// A request's turn: no other request of the lock runs until it is dropped.
#[derive(Debug)]
pub(super) struct RequestTurn {
    _running: OwnedMutexGuard<()>,
    _place: RequestPlace,
}

impl Lines {
    /// Enters the line of a lock; `None` if too many wait.
    pub(super) fn enter(self: &Arc<Self>, name: &QueueName) -> Option<RequestPlace> {
        let mut lines = self.0.lock();
        let line = lines.entry(name.clone()).or_default();
        if line.requests > WAITING_MAX {
            return None;
        }
        line.requests += 1;
        Some(RequestPlace { lines: self.clone(), name: name.clone(), running: line.running.clone() })
    }
}

impl RequestPlace {
    /// Waits for the requests ahead.
    pub(super) async fn turn(self) -> RequestTurn {
        RequestTurn { _running: self.running.clone().lock_owned().await, _place: self }
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let mut lines = self.lines.0.lock();
        if let Some(line) = lines.get_mut(&self.name) {
            line.requests -= 1;
            if line.requests == 0 {
                lines.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn requests_of_a_lock_take_turns_in_their_order_and_those_of_others_do_not_wait() {
        let lines = Arc::new(Lines::default());
        let mut turns: Vec<_> = (0..3).map(|_| Box::pin(lines.enter(&name("x")).unwrap().turn())).collect();
        let mut third = turns.pop().unwrap();
        let mut second = turns.pop().unwrap();
        let Poll::Ready(first) = poll(turns.pop().unwrap().as_mut()) else { panic!("the first waits") };
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        assert!(poll(Box::pin(lines.enter(&name("y")).unwrap().turn()).as_mut()).is_ready());
        drop(first);
        assert!(poll(third.as_mut()).is_pending(), "it is the second's turn");
        // A client that went away leaves the line.
        drop(second);
        assert!(poll(third.as_mut()).is_ready());
        drop(third);
        assert!(lines.0.lock().is_empty(), "a line without requests takes no room");
    }

    #[test]
    fn so_many_requests_of_a_lock_wait_and_no_more() {
        let lines = Arc::new(Lines::default());
        let mut places: Vec<_> = (0..=WAITING_MAX).map(|_| lines.enter(&name("x")).unwrap()).collect();
        assert!(lines.enter(&name("x")).is_none());
        assert!(lines.enter(&name("y")).is_some());
        places.pop();
        assert!(lines.enter(&name("x")).is_some());
    }
}
