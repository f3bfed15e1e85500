//! Connects to a server: the one place that opens sockets. `hosts` decides which server, and when.

use std::fmt;
use std::io;

use lockkeeper_core::BoxFuture;
use lockkeeper_zk_proto::client::DisconnectReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::config::Server;

/// How many addresses of one name are tried: as many as a URL may name servers.
const ADDRESSES_MAX: usize = lockkeeper_core::url::HOSTS_MAX;

/// A byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Opens connections: TCP or TLS in production, an in-memory duplex in tests.
///
/// A stream may hold back what was written until it is flushed. Dropping a future of this trait leaves nothing open.
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// Finds the addresses of a server, each as the same server [`at`](Server::at) it. The addresses are dialled in
    /// this order, each by itself and with its share of the time to connect. A dial that resolves no names returns the
    /// server as it is.
    ///
    /// # Errors
    ///
    /// The reason why the name could not be resolved.
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        Box::pin(std::future::ready(Ok(vec![server.clone()])))
    }

    /// Opens a connection to a server.
    ///
    /// # Errors
    ///
    /// The reason why it could not be opened. [`io::ErrorKind::InvalidData`] says that it will not open until a setting
    /// or a certificate is changed; any other kind may pass.
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>>;
}

/// TCP without Nagle's delay; names are resolved anew for each round through the servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

impl Dial for TcpDial {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        resolve_name(server)
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let server = server.clone();
        Box::pin(async move { Ok(Box::new(connect_tcp(&server).await?) as Box<dyn Stream>) })
    }
}

/// Asks the machine's resolver for the addresses of a server.
pub(crate) fn resolve_name(server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
    let server = server.clone();
    Box::pin(async move {
        let mut ways: Vec<Server> = Vec::new();
        for address in lookup_host((server.name.as_str(), server.port)).await?.take(ADDRESSES_MAX) {
            let way = server.at(address);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        match ways.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
            false => Ok(ways),
        }
    })
}

/// Connects to a server's address, or to the first of its addresses that answers if it was not resolved.
pub(crate) async fn connect_tcp(server: &Server) -> io::Result<TcpStream> {
    let stream = match server.address {
        Some(address) => TcpStream::connect(address).await?,
        None => TcpStream::connect((server.name.as_str(), server.port)).await?,
    };
    // Nagle's delay would cost a lock 40 ms.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Why a server could not be used.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) nature: FailureNature,
}

/// What a failure says of the next attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FailureNature {
    /// There was no answer in time: the next one may come.
    Silence,
    /// The server, or the way to it, refused; that may pass.
    Refusal,
    /// It will not pass until a setting or a certificate is changed.
    Lasting,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let nature = match error.kind() {
            io::ErrorKind::InvalidData => FailureNature::Lasting,
            io::ErrorKind::TimedOut => FailureNature::Silence,
            _ => FailureNature::Refusal,
        };
        Self { why: error.to_string(), nature }
    }
}

impl From<DisconnectReason> for Failure {
    fn from(reason: DisconnectReason) -> Self {
        let nature = match reason {
            DisconnectReason::HandshakeTimeout | DisconnectReason::Silent => FailureNature::Silence,
            _ => FailureNature::Refusal,
        };
        Self { why: reason.to_string(), nature }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[tokio::test]
    async fn an_address_that_means_something_on_one_interface_alone_keeps_the_interface() {
        // By its number: interfaces are not named alike everywhere.
        let ways = resolve_name(&Server::new("fe80::1%1", 2181)).await.unwrap();
        let [Server { address: Some(SocketAddr::V6(address)), .. }] = &ways[..] else { panic!("{ways:?}") };
        assert_eq!((address.scope_id(), address.port()), (1, 2181));
        assert!(ways[0].to_string().ends_with(" at fe80::1%1"), "{}", ways[0]);
    }
}
