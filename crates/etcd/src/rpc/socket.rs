//! The one socket of a connection: it tells when it has ended, and is never opened again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockkeeper_session::Socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// The socket, as the HTTP/2 driver sees it.
pub(super) struct Tap {
    stream: Socket,
    /// Set when the socket has ended in any way, and when the driver has dropped it.
    is_over: Arc<watch::Sender<bool>>,
}

impl Tap {
    pub(super) fn new(stream: Socket, is_over: Arc<watch::Sender<bool>>) -> Self {
        Self { stream, is_over }
    }

    /// Notes an end, if that is what the outcome of an attempt is.
    fn note<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(outcome, Poll::Ready(Err(_))) {
            self.is_over.send_replace(true);
        }
        outcome
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(outcome, Poll::Ready(Ok(()))) && buffer.filled().len() == before && buffer.remaining() > 0 {
            self.is_over.send_replace(true);
        }
        self.note(outcome)
    }
}

// It takes one buffer at a time: then the HTTP/2 driver copies a request of up to a kilobyte, as a join is, beside its
// end, and so writes them together.
impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.note(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.note(outcome)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.is_over.send_replace(true);
    }
}
