//! Connects to a server: the one place that opens sockets and secures them, and says why that failed.
//!
//! An alert of TLS is a refusal for good: one end does not accept what the other shows or speaks, and that changes only
//! with settings or certificates (RFC 8446, section 6.2). Trouble inside a server is the exception (`lockkeeper-tls`).
//! In TLS 1.3 a server refuses our certificate, or the lack of one, only after the handshake, when we read its first
//! answer. Drivers of protocols do not hand that error on; so the socket keeps it.
//!
//! A server that speaks TLS, or HTTP, where we do not shows itself by its first bytes. That is told here too, for every
//! protocol.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

#[cfg(feature = "tls")]
use lockkeeper_tls::{HandshakeError, OurCertificate};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::watch;

#[cfg(unix)]
use crate::tcp::OwnStream;
use crate::tcp::Tcp;
use crate::{Failure, Server};

/// Connects to a way's address, or to the first address of its name that answers if that was not resolved. There is no
/// Nagle's delay, which would cost a lock 40 ms.
///
/// # Errors
///
/// Why it could not be reached.
pub async fn connect_tcp(way: &Server) -> io::Result<Tcp> {
    let stream = match way.address {
        Some(address) => TcpStream::connect(address).await?,
        None => TcpStream::connect((way.name.as_str(), way.port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(Tcp::new(stream))
}

/// A byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// By how many bytes a server shows that it is none of the service.
const FIRST_BYTES: usize = 4;

/// Sees what is read.
type Look = Box<dyn FnMut(&[u8]) + Send>;

/// A socket to a server, secured or not, as the driver of a protocol sees it. Its [`AnswerMeter`] knows what became of
/// it.
pub struct Socket {
    stream: Box<dyn Stream>,
    meter: Arc<AnswerMeter>,
    look: Option<Look>,
    /// The scheme of a URL of the service without TLS.
    scheme: &'static str,
    /// What the server has said first, until it is known whether it is one of the service.
    first: Option<Vec<u8>>,
    /// Whether a handshake of TLS goes on over it, whose alert only the driver of the handshake can read.
    is_shaking: bool,
    /// Whether the server may still refuse us: after the handshake of TLS, until it says anything else.
    may_refuse: bool,
    #[cfg(feature = "tls")]
    ours: OurCertificate,
    answer_bytes_max: u64,
    /// How far the meter's count of answers was at the last read.
    progress: u64,
    /// How many bytes were read since.
    unfinished_bytes: u64,
}

impl Socket {
    /// Connects over TCP, or to a Unix socket. `scheme` is that of a URL of the service without TLS.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::FailureKind::Broken): the server could not be reached.
    pub async fn connect(way: &Server, scheme: &'static str) -> Result<Self, Failure> {
        let connected = match way.socket() {
            #[cfg(unix)]
            Some(path) => UnixStream::connect(path).await.map(|stream| Self::of(OwnStream::new(stream), scheme)),
            _ => connect_tcp(way).await.map(|stream| Self::of(stream, scheme)),
        };
        connected.map_err(|error| Failure::unreachable("cannot be reached", error))
    }

    /// Takes a connection that was opened.
    #[must_use]
    pub fn of(stream: impl Stream, scheme: &'static str) -> Self {
        Self {
            stream: Box::new(stream),
            meter: Arc::default(),
            look: None,
            scheme,
            first: Some(Vec::new()),
            is_shaking: false,
            may_refuse: false,
            #[cfg(feature = "tls")]
            ours: OurCertificate::Missing,
            answer_bytes_max: u64::MAX,
            progress: 0,
            unfinished_bytes: 0,
        }
    }

    /// Makes sure that the other end is the server.
    ///
    /// # Errors
    ///
    /// Why there was no handshake, or none that can be trusted.
    #[cfg(feature = "tls")]
    pub async fn secure(mut self, connector: &lockkeeper_tls::Connector, way: &Server) -> Result<Self, Failure> {
        let scheme = self.scheme;
        // What is said now is TLS.
        self.first = None;
        self.is_shaking = true;
        let shaken = connector.connect(&way.name, self).await;
        let mut shaken = shaken.map_err(|error| Failure::of_handshake(&error, scheme))?;
        shaken.get_mut().0.is_shaking = false;
        let mut secured = Self::of(shaken, scheme);
        (secured.first, secured.may_refuse, secured.ours) = (None, true, connector.ours());
        Ok(secured)
    }

    /// Ends the connection at an answer that has no end, for drivers that have no limit: each answer is to be
    /// [noted](AnswerMeter::note_progress).
    #[must_use]
    pub const fn limited_to(mut self, answer_bytes_max: u64) -> Self {
        self.answer_bytes_max = answer_bytes_max;
        self
    }

    /// Lets all be seen that is read from now on.
    #[must_use]
    pub fn seen_by(mut self, look: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.look = Some(Box::new(look));
        self
    }

    /// Returns what knows what becomes of it.
    #[must_use]
    pub fn meter(&self) -> Arc<AnswerMeter> {
        self.meter.clone()
    }

    /// Tells whether reads will say why a write has failed. A server that gives up a handshake hangs up behind its
    /// alert, so that our next flight may fail before that is read. Reads then come to the alert, or to the end.
    fn leaves_to_reads<T>(&self, written: &io::Result<T>) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        let error = written.as_ref().err().map(io::Error::kind);
        self.is_shaking && error.is_some_and(|kind| matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset))
    }

    /// Notes how an attempt to write ended. What holds for a handshake holds for the first write behind it: a server's
    /// last words are waited for. They come at once, since the connection has ended.
    fn written<T>(&mut self, context: &mut Context<'_>, outcome: io::Result<T>) -> Poll<io::Result<T>> {
        if outcome.is_err() && self.may_refuse {
            let mut last = [0; 1];
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut last)));
            if let Err(why) = self.judged(read) {
                return Poll::Ready(Err(why));
            }
        }
        Poll::Ready(self.judged(outcome))
    }

    /// Says why the connection has ended, if it has: an alert that refuses us is told in words, and kept.
    fn judged<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        let error = match outcome {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        #[cfg(feature = "tls")]
        if let Some(alert) = HandshakeError::of_alert(&error, self.ours) {
            return Err(self.refuse(Failure::of_handshake(&alert, self.scheme)));
        }
        self.meter.is_over.send_replace(true);
        Err(error)
    }

    /// Ends the connection, and keeps why.
    fn refuse(&self, refusal: Failure) -> io::Error {
        self.meter.is_over.send_replace(true);
        let _ = self.meter.refusal.set(refusal.clone());
        refusal.into_io()
    }

    /// Looks at what a server says first.
    fn meet(&mut self, read: &[u8]) -> io::Result<()> {
        let Some(mut first) = self.first.take() else { return Ok(()) };
        first.extend_from_slice(&read[..read.len().min(FIRST_BYTES - first.len())]);
        if let Some(stranger) = Failure::of_first_bytes(&first, self.scheme) {
            return Err(self.refuse(stranger));
        }
        self.first = (first.len() < FIRST_BYTES).then_some(first);
        Ok(())
    }

    /// Counts bytes towards the limit of an answer.
    fn count(&mut self, bytes: u64) -> io::Result<()> {
        let progress = self.meter.progress.load(Ordering::Relaxed);
        if progress != self.progress {
            (self.progress, self.unfinished_bytes) = (progress, 0);
        }
        self.unfinished_bytes = self.unfinished_bytes.saturating_add(bytes);
        if self.unfinished_bytes > self.answer_bytes_max {
            let message = format!("an answer is longer than {} bytes", self.answer_bytes_max);
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, message));
        }
        Ok(())
    }
}

/// What both ends of a connection know of it: the driver by its socket, and those who ask.
#[derive(Debug, Default)]
pub struct AnswerMeter {
    /// How many bytes the socket has taken. Those that it has not taken never reach the server.
    written: AtomicU64,
    /// Counts answers and notifications.
    progress: AtomicU64,
    /// Why the server has refused us after the handshake.
    refusal: OnceLock<Failure>,
    /// Whether the socket has ended in any way, or its driver has dropped it.
    is_over: watch::Sender<bool>,
}

impl AnswerMeter {
    /// Returns how many bytes were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Says that an answer, or what was told unasked, was read to its end.
    pub fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what is set once the socket has ended.
    pub fn is_over(&self) -> watch::Receiver<bool> {
        self.is_over.subscribe()
    }

    /// Says that the server has refused us, instead of the failure that came of it, if it has.
    #[must_use]
    pub fn judge(&self, failure: Failure) -> Failure {
        self.refusal.get().cloned().unwrap_or(failure)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.judged(read)?;
        let read = &buffer.filled()[before..];
        self.may_refuse &= read.is_empty();
        self.meet(read)?;
        if read.is_empty() && buffer.remaining() > 0 {
            self.meter.is_over.send_replace(true);
        }
        if let Some(look) = &mut self.look {
            look(read);
        }
        let bytes = read.len() as u64;
        Poll::Ready(self.count(bytes))
    }
}

// It takes one buffer at a time: then a driver of HTTP/2 copies a request of up to a kilobyte, as a join is, beside its
// end, and so writes them together.
impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        if self.leaves_to_reads(&written) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let taken = ready!(self.written(context, written))?;
        self.meter.written.fetch_add(taken as u64, Ordering::SeqCst);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.written(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = ready!(Pin::new(&mut self.stream).poll_shutdown(context));
        self.written(context, shut)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.meter.is_over.send_replace(true);
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Socket").field("meter", &self.meter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    #[cfg(feature = "tls")]
    use lockkeeper_conformance::soon;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_written_is_counted_and_what_was_read_is_seen() {
        let (near, mut far) = tokio::io::duplex(64);
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let sight = seen.clone();
        let mut socket = Socket::of(near, "redis").seen_by(move |bytes| sight.lock().unwrap().extend(bytes));
        let meter = socket.meter();
        socket.write_all(b"PING\r\n").await.unwrap();
        assert_eq!((meter.written(), *meter.is_over().borrow()), (6, false));
        far.write_all(b"PONG").await.unwrap();
        let mut bytes = [0; 4];
        socket.read_exact(&mut bytes).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), b"PONG");
        drop(far);
        assert_eq!(socket.read(&mut bytes).await.unwrap(), 0);
        assert!(*meter.is_over().borrow());
    }

    #[tokio::test]
    async fn a_server_that_speaks_tls_or_http_instead_is_told_by_its_first_bytes_however_they_come() {
        for (said, words) in [
            (&[21, 3, 1, 0, 2, 2, 70][..], "`redis+tls:`"),
            (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server"),
            (b"-ERR HTTP", ""),
            (&[21, 4, 0, 0], ""),
        ] {
            for at_once in [1, said.len()] {
                let (near, mut far) = tokio::io::duplex(64);
                let mut socket = Socket::of(near, "redis");
                let meter = socket.meter();
                let mut outcome = Ok(());
                for bytes in said.chunks(at_once) {
                    far.write_all(bytes).await.unwrap();
                    let mut read = vec![0; bytes.len()];
                    outcome = outcome.and(socket.read_exact(&mut read).await.map(drop));
                }
                let told = meter.judge(Failure::broken(crate::Effect::None));
                assert_eq!((outcome.is_err(), told.is_passing()), (!words.is_empty(), words.is_empty()), "{told}");
                assert!(told.to_string().contains(words), "{told}");
            }
        }
    }

    /// Takes nothing: its other end has hung up.
    #[cfg(feature = "tls")]
    struct HungUp;

    #[cfg(feature = "tls")]
    impl AsyncWrite for HungUp {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn a_server_that_hangs_up_behind_its_alert_is_heard_though_our_flight_fails_first() {
        let authority = lockkeeper_faults::authority::Authority::new("h1").expect("an authority");
        let url = format!("redis+tls://h1?ca={}", authority.file("ca").display());
        let connector = lockkeeper_tls::Connector::from_url(&url.parse().unwrap()).unwrap();
        let way = Server::new("h1", 1);
        // The alert that a certificate is required (RFC 8446, section 6); no alert; and one of trouble inside.
        for (said, words, is_passing) in [
            (&[21, 3, 3, 0, 2, 2, 116][..], "`cert` and `key`", false),
            (&[], "hung up", true),
            (&[21, 3, 3, 0, 2, 2, 80], "gave up", true),
        ] {
            let socket = Socket::of(tokio::io::join(said, HungUp), "redis");
            let failure = soon("the handshake", socket.secure(&connector, &way)).await.expect_err("no handshake");
            assert_eq!(failure.is_passing(), is_passing, "{failure}");
            assert!(failure.to_string().contains(words), "{failure}");
        }
    }

    #[test]
    fn an_answer_without_an_end_ends_the_connection_and_many_short_ones_do_not() {
        let mut socket = Socket::of(tokio::io::empty(), "redis").limited_to(100);
        for _ in 0..3 {
            socket.count(100).expect("it is no longer than the limit");
            socket.meter.note_progress();
        }
        socket.count(100).expect("it is no longer than the limit");
        socket.count(1).expect_err("it is longer");
    }
}
