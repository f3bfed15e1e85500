//! The socket of a connection, as the driver sees it: it reads the process of the server in passing, and ends if an
//! answer has no end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest answer, in bytes: a queue of a hundred thousand contenders, with their records, has a third of it. The
/// crate `tokio-postgres` has no limit.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The bytes of a message before its content: its kind, and a length that counts itself.
const HEAD_BYTES: usize = 5;

/// What both ends of a connection know of it: the driver by the tap, and those who ask.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Counts answers and notifications.
    progress: AtomicU64,
    /// The process of the server that the greeting named, with a one above it once it is there.
    process: AtomicU64,
}

impl Meter {
    /// Says that an answer or a notification was read to its end.
    pub(super) fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the process that the greeting named: that of the server, or what a pooler made up. A server that names
    /// none has no cancel requests.
    pub(super) fn process(&self) -> Option<i32> {
        let noted = self.process.load(Ordering::Relaxed);
        let bits = u32::try_from(noted & u64::from(u32::MAX)).ok()?;
        (noted >> u32::BITS != 0).then_some(i32::from_ne_bytes(bits.to_ne_bytes()))
    }

    fn note_process(&self, process: [u8; 4]) {
        self.process.store(u64::from(u32::from_be_bytes(process)) | 1 << u32::BITS, Ordering::Relaxed);
    }
}

/// Reads the messages of a greeting, up to the first time that the server waits for a request.
#[derive(Debug, Default)]
struct Greeting {
    /// The message that is being read: its head, and so much of its content as is looked at.
    message: Vec<u8>,
    /// How much of its content is still to be passed over.
    passed_over: usize,
    is_over: bool,
}

impl Greeting {
    /// Takes in what was read; returns the process if its message was in it.
    fn read(&mut self, bytes: &[u8]) -> Option<[u8; 4]> {
        const PROCESS: u8 = b'K';
        const READY: u8 = b'Z';
        let mut process = None;
        let mut rest = bytes;
        while !self.is_over && !rest.is_empty() {
            if self.passed_over > 0 {
                let passed_over = self.passed_over.min(rest.len());
                self.passed_over -= passed_over;
                rest = &rest[passed_over..];
                continue;
            }
            self.message.push(rest[0]);
            rest = &rest[1..];
            let Some((&[kind, a, b, c, d], content)) = self.message.split_first_chunk::<HEAD_BYTES>() else {
                continue;
            };
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
            let left = length.saturating_sub(HEAD_BYTES - 1);
            match (kind, content.first_chunk::<4>()) {
                (READY, _) => self.is_over = true,
                (PROCESS, None) if left >= 4 => continue,
                (PROCESS, Some(found)) => {
                    process = Some(*found);
                    self.passed_over = left - 4;
                }
                _ => self.passed_over = left,
            }
            self.message.clear();
        }
        process
    }
}

/// A socket with a meter.
pub(super) struct Tap<S> {
    stream: S,
    meter: Arc<Meter>,
    greeting: Greeting,
    /// How far the meter's count of answers was at the last read.
    progress: u64,
    /// How many bytes were read since.
    unfinished_bytes: u64,
}

impl<S> Tap<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter, greeting: Greeting::default(), progress: 0, unfinished_bytes: 0 }
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
        if let Some(process) = self.greeting.read(read) {
            self.meter.note_process(process);
        }
        let bytes = read.len() as u64;
        Poll::Ready(self.count(bytes))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
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

    /// `AuthenticationOk`, a setting, the process 7 with its key, and that the server waits; then a row that looks
    /// like a process.
    const GREETING: &[u8] =
        b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0aK\0\0\0\x01\0K\0\0\0\x0c\0\0\0\x07\x01\x02\x03\x04Z\0\0\0\x05I\
          K\0\0\0\x0c\0\0\0\x09\0\0\0\0";

    #[tokio::test]
    async fn the_process_is_read_in_passing_however_the_bytes_come() {
        for piece in [1, 2, 7, GREETING.len()] {
            let (near, mut far) = tokio::io::duplex(GREETING.len());
            let meter = Arc::new(Meter::default());
            let mut tap = Tap::new(near, meter.clone());
            for bytes in GREETING.chunks(piece) {
                far.write_all(bytes).await.unwrap();
                let mut read = vec![0; bytes.len()];
                tap.read_exact(&mut read).await.unwrap();
            }
            assert_eq!(meter.process(), Some(7), "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn no_process_is_read_out_of_garbage() {
        for garbage in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"K\0\0\0\0", b"K\xff\xff\xff\xff", b""] {
            assert_eq!(Greeting::default().read(garbage), None, "{garbage:?}");
        }
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
