//! A one-shot watch as a future.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lockkeeper_zk_proto::message::{EventKind, OpCode};

use crate::error::ClientError;
use crate::link::Fired;

/// What a watch saw. It does not tell what happened afterwards: read again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchEvent {
    /// The path that was watched.
    pub path: String,
    /// What happened there.
    pub kind: EventKind,
}

/// A watch that was set: a future of the one event that ends it. Dropping it removes the watch.
///
/// A watch outlives connections: a change that was missed between two is told after the next one is made. It fails when
/// the session is over.
#[derive(Debug)]
#[must_use = "dropping it removes the watch"]
pub struct Watch {
    fired: Fired,
    operation: OpCode,
    path: String,
}

impl Watch {
    pub(super) fn new(fired: Fired, operation: OpCode, path: String) -> Self {
        Self { fired, operation, path }
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.fired).poll(context)) {
            Some(happening) => Ok(WatchEvent { path: self.path.clone(), kind: happening.kind }),
            None => Err(ClientError::session_lost(self.operation, &self.path)),
        })
    }
}
