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

/// Opens connections: TCP in production, an in-memory duplex in tests.
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// Opens a connection to a server.
    ///
    /// # Errors
    ///
    /// Whatever kept it from opening.
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
        let (name, port) = (server.name.clone(), server.port);
        Box::pin(async move {
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in lookup_host((name, port)).await? {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        // A request that waits for company would cost a lock 40 ms.
                        stream.set_nodelay(true)?;
                        return Ok(Box::new(stream) as Box<dyn Stream>);
                    }
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        })
    }
}
