//! Reaching a server: the one place that opens sockets. Which server, and when, is `hosts`'s to say.

use std::fmt;
use std::io;

use lockkeeper_core::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::config::Server;

/// A byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Opens connections: TCP or TLS in production, an in-memory duplex in tests.
///
/// A stream may hold back what was written until it is flushed.
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// Opens a connection to a server.
    ///
    /// # Errors
    ///
    /// Whatever kept it from opening. [`io::ErrorKind::InvalidData`] says that it will not open until somebody changes
    /// something, such as a certificate; anything else may pass.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing open.
    ///
    /// # Ordering
    ///
    /// None.
    ///
    /// # On connection loss
    ///
    /// The stream ends or fails.
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>>;
}

/// TCP without Nagle's delay; names are resolved at each attempt, and all their addresses are tried in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

impl Dial for TcpDial {
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let server = server.clone();
        Box::pin(async move { Ok(Box::new(connect_tcp(&server).await?) as Box<dyn Stream>) })
    }
}

/// Connects to the first address of a server that answers.
pub(crate) async fn connect_tcp(server: &Server) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup_host((server.name.as_str(), server.port)).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // A request that waits for company would cost a lock 40 ms.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Why a server could not be used.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// Whether it will not pass by itself.
    pub(crate) is_lasting: bool,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { why: error.to_string(), is_lasting: error.kind() == io::ErrorKind::InvalidData }
    }
}
