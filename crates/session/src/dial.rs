//! Connects to a server: the one place that opens sockets and secures them, and says why that failed.
//!
//! An alert of TLS is a refusal for good: one end does not accept what the other shows or speaks, and that changes only
//! with settings or certificates (RFC 8446, section 6.2). Trouble inside a server is the exception (`lockkeeper-tls`).
//! In TLS 1.3 a server refuses our certificate, or the lack of one, only after the handshake, when we read its first
//! answer. Drivers of protocols do not hand that error on; so a [`Socket`] keeps it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::{Failure, Server};

/// Connects to a way's address, or to the first address of its name that answers if that was not resolved. There is no
/// Nagle's delay, which would cost a lock 40 ms.
///
/// # Errors
///
/// Why it could not be reached.
pub async fn connect_tcp(way: &Server) -> io::Result<TcpStream> {
    let stream = match way.address {
        Some(address) => TcpStream::connect(address).await?,
        None => TcpStream::connect((way.name.as_str(), way.port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// A socket to a server, secured or not.
pub struct Socket {
    stream: Box<dyn Stream>,
    alert: Alert,
}

impl Socket {
    /// Connects over TCP.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::FailureKind::Broken): the server could not be reached.
    pub async fn connect(way: &Server) -> Result<Self, Failure> {
        connect_tcp(way).await.map(Self::of).map_err(|error| Failure::unreachable("cannot be reached", error))
    }

    /// Takes a connection that was opened.
    #[must_use]
    pub fn of(stream: impl Stream) -> Self {
        Self { stream: Box::new(stream), alert: Alert::default() }
    }

    /// Makes sure that the other end is the server. `plain` is the scheme of a URL without TLS.
    ///
    /// # Errors
    ///
    /// Why there was no handshake, or none that can be trusted.
    #[cfg(feature = "tls")]
    pub async fn secure(
        self,
        connector: &lockkeeper_tls::Connector,
        way: &Server,
        plain: &str,
    ) -> Result<Self, Failure> {
        let shaken = connector.connect(&way.name, self).await;
        shaken.map(Self::of).map_err(|error| Failure::of_handshake(&error, plain))
    }

    /// Returns what knows whether the server refuses us after the handshake.
    #[must_use]
    pub fn alert(&self) -> Alert {
        self.alert.clone()
    }
}

/// Whether, and why, the server has refused us after the handshake.
#[derive(Clone, Debug, Default)]
pub struct Alert(Arc<OnceLock<Failure>>);

impl Alert {
    /// Says so instead of the failure that came of it, if it has.
    #[must_use]
    pub fn judge(&self, failure: Failure) -> Failure {
        self.0.get().cloned().unwrap_or(failure)
    }

    /// Keeps a refusal.
    fn note(&self, read: io::Result<()>) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Err(error) = &read
            && let Some(refusal) = lockkeeper_tls::HandshakeError::of_alert(error)
        {
            let _ = self.0.set(Failure::of_handshake(&refusal, ""));
        }
        read
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        Poll::Ready(self.alert.note(read))
    }
}

impl AsyncWrite for Socket {
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

impl fmt::Debug for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Socket").field("alert", &self.alert).finish_non_exhaustive()
    }
}
