//! One connection. When its runtime ends, it still sends what is queued and the end of the session.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use lockkeeper_session::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};

use crate::link::Link;

/// How many bytes are read at once of input that is thrown away.
const DRAIN_BYTES: usize = 4 * 1024;

/// How many such reads there are at most: as much as a socket holds for a reader by default.
const DRAINS_MAX: usize = 64;

/// A byte stream to a server, and what is being written on it.
///
/// If it is dropped while it is in use, a runtime is ending and drops the driver's future with it. No task goes on
/// then, so this is the last moment at which the service can be told that all locks of the session are free.
pub(crate) struct Connection {
    link: Arc<Link>,
    pub(crate) reader: ReadHalf<Box<dyn Stream>>,
    pub(crate) writer: WriteHalf<Box<dyn Stream>>,
    /// What was taken from the session and not yet by the stream.
    pub(crate) output: Bytes,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { link, reader, writer, output: Bytes::new() }
    }

    /// Writes as much of this as the stream takes without waiting; returns whether it took all.
    fn push(&mut self, context: &mut Context<'_>, mut bytes: Bytes) -> bool {
        while bytes.has_remaining() {
            match Pin::new(&mut self.writer).poll_write(context, &bytes) {
                Poll::Ready(Ok(count)) if count > 0 => bytes.advance(count),
                Poll::Ready(_) | Poll::Pending => return false,
            }
        }
        true
    }

    /// Takes what has arrived: a socket that is closed over unread bytes discards what it has not sent yet.
    fn drain(&mut self, context: &mut Context<'_>) {
        let mut bytes = [0; DRAIN_BYTES];
        for _ in 0..DRAINS_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.reader).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) | Poll::Pending => return,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.link.is_attached() {
            return;
        }
        let farewell = self.link.farewell();
        let begun = std::mem::take(&mut self.output);
        // No task is woken: what the stream does not take at once is left to the session's timeout.
        let mut context = Context::from_waker(Waker::noop());
        if self.push(&mut context, begun) && self.push(&mut context, farewell) {
            let _ = Pin::new(&mut self.writer).poll_flush(&mut context);
            self.drain(&mut context);
        }
    }
}
