//! A connection that is of use in the process alone that has opened it.
//!
//! A fork has the same socket. What it wrote would be its parent's words, and what it read its parent would miss. Nor
//! does it let go of the socket: a runtime that does so also has the kernel's list of sockets forget it, which is its
//! parent's list too.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(windows)]
use std::os::windows::io::AsSocket;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lockkeeper_core::Home;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// A connection. In a fork it neither reads nor writes, and stays open.
pub struct OwnStream<S> {
    home: Home,
    /// There until it is dropped.
    stream: Option<S>,
}

/// A connection over TCP.
pub type Tcp = OwnStream<TcpStream>;

/// Tells whether there is something to read, without a question to the kernel.
pub(crate) trait Readable {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Readable for TcpStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }
}

#[cfg(unix)]
impl Readable for UnixStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }
}

impl OwnStream<TcpStream> {
    /// Returns what ends it from elsewhere.
    ///
    /// # Errors
    ///
    /// There is no descriptor left for that.
    pub fn closer(&self) -> io::Result<Closer> {
        let stream = self.stream.as_ref().ok_or(ErrorKind::NotConnected)?;
        #[cfg(unix)]
        let stream = stream.as_fd().try_clone_to_owned()?;
        #[cfg(windows)]
        let stream = stream.as_socket().try_clone_to_owned()?;
        Ok(Closer { home: self.home, stream: stream.into() })
    }
}

impl<S: Unpin> OwnStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { home: Home::here(), stream: Some(stream) }
    }

    /// The stream, in the process that has opened it.
    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        let is_left = self.home.is_left();
        match &mut self.stream {
            Some(stream) if !is_left => Ok(Pin::new(stream)),
            _ => Err(io::Error::new(ErrorKind::NotConnected, "the connection is that of the parent of this process")),
        }
    }
}

impl<S: AsyncRead + Readable + Unpin> AsyncRead for OwnStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Most often there is nothing to read, and then nothing to ask the kernel.
        if let Some(stream) = &self.stream {
            ready!(stream.poll_readable(context))?;
        }
        self.stream()?.poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OwnStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    /// What was written is with the kernel.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}

impl<S> Drop for OwnStream<S> {
    fn drop(&mut self) {
        if self.home.is_left() {
            std::mem::forget(self.stream.take());
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for OwnStream<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OwnStream").field(&self.stream).finish()
    }
}

/// Ends a connection that another part drives.
#[derive(Debug)]
pub struct Closer {
    home: Home,
    stream: std::net::TcpStream,
}

impl Closer {
    /// Ends it, in the process that has opened it.
    pub fn close(&self) {
        if !self.home.is_left() {
            // A socket that has ended already needs no more.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}
