//! The socket of a connection, as the driver sees it: it counts what was written, and ends if an answer has no end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest answer, in bytes: a queue of a hundred thousand contenders, with their data, has a third of it. It is
/// the crate `redis` that reads answers, and it has no limit for them.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What both ends of a connection know of it: the driver by the tap, and those who ask.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// How many bytes the socket has taken. Those that it has not taken never reach the server.
    written: AtomicU64,
    /// Counts answers and pushes.
    progress: AtomicU64,
    /// The first bytes that were read, with a one above them once they are there.
    first_read: AtomicU64,
}

/// How many of the first bytes that were read are kept.
const FIRST_BYTES: usize = 4;

impl Meter {
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Says that an answer or a push was read to its end.
    pub(super) fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what the other end said first; `None` if it said less than that.
    pub(super) fn first_read(&self) -> Option<[u8; FIRST_BYTES]> {
        let noted = self.first_read.load(Ordering::Relaxed);
        u32::try_from(noted & u64::from(u32::MAX)).ok().filter(|_| noted >> u32::BITS != 0).map(u32::to_be_bytes)
    }

    fn note_read(&self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk().filter(|_| self.first_read.load(Ordering::Relaxed) == 0) {
            let noted = u64::from(u32::from_be_bytes(*first)) | 1 << u32::BITS;
            self.first_read.store(noted, Ordering::Relaxed);
        }
    }
}

/// A socket with a meter.
pub(super) struct Tap<S> {
    stream: S,
    meter: Arc<Meter>,
    /// How far the meter's count of answers was at the last read.
    progress: u64,
    /// How many bytes were read since.
    unfinished_bytes: u64,
}

impl<S> Tap<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter, progress: 0, unfinished_bytes: 0 }
    }

    /// Counts bytes towards the limit of an answer.
    fn count(&mut self, bytes: u64) -> io::Result<()> {
        let progress = self.meter.progress.load(Ordering::Relaxed);
        if progress != self.progress {
            (self.progress, self.unfinished_bytes) = (progress, 0);
        }
        self.unfinished_bytes += bytes;
        if self.unfinished_bytes > ANSWER_BYTES_MAX {
            let message = format!("an answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, message));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.meter.note_read(read);
        let bytes = read.len() as u64;
        Poll::Ready(self.count(bytes))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.meter.written.fetch_add(taken as u64, Ordering::SeqCst);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_written_is_counted_and_what_was_read_first_is_kept() {
        let (near, mut far) = tokio::io::duplex(64);
        let meter = Arc::new(Meter::default());
        let mut tap = Tap::new(near, meter.clone());
        tap.write_all(b"PING\r\n").await.unwrap();
        assert_eq!((meter.written(), meter.first_read()), (6, None));
        far.write_all(b"HTTP/1.1").await.unwrap();
        let mut bytes = [0; 8];
        tap.read_exact(&mut bytes).await.unwrap();
        far.write_all(b"another!").await.unwrap();
        tap.read_exact(&mut bytes).await.unwrap();
        assert_eq!(meter.first_read(), Some(*b"HTTP"));
    }

    #[tokio::test]
    async fn an_answer_without_an_end_ends_the_connection_and_many_short_ones_do_not() {
        let meter = Arc::new(Meter::default());
        let mut tap = Tap::new(tokio::io::empty(), meter.clone());
        for _ in 0..3 {
            tap.count(ANSWER_BYTES_MAX).expect("it is no longer than the limit");
            meter.note_progress();
        }
        tap.count(ANSWER_BYTES_MAX).expect("it is no longer than the limit");
        tap.count(1).expect_err("it is longer");
    }
}
