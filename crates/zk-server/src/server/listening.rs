//! Where a server listens: the sockets are made here; who accepts on them is the handle's part.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::server::error::ServerError;

/// Where a server is to listen.
#[derive(Debug, Default)]
pub(super) enum ListenPlan {
    /// On any free port of the loopback address.
    #[default]
    AnyFreePort,
    /// On no socket.
    Nowhere,
    /// On each of the addresses of each host that the machine has.
    On(Vec<Vec<SocketAddr>>),
}

/// A socket that listens, and its address.
pub(super) type BoundListener = (TcpListener, SocketAddr);

impl ListenPlan {
    /// Adds the addresses of one host; the first call replaces the default.
    pub(super) fn add(&mut self, addresses: Vec<SocketAddr>) {
        match self {
            Self::On(hosts) => hosts.push(addresses),
            Self::AnyFreePort | Self::Nowhere => *self = Self::On(vec![addresses]),
        }
    }

    /// Makes the sockets, in the order in which they were asked for.
    ///
    /// # Errors
    ///
    /// Fails if an address cannot be listened on, but for those that the machine does not have while it has another
    /// one of the same host.
    pub(super) async fn bind(self) -> Result<Vec<BoundListener>, ServerError> {
        let hosts = match self {
            Self::Nowhere => Vec::new(),
            Self::AnyFreePort => vec![vec![SocketAddr::from(([127, 0, 0, 1], 0))]],
            Self::On(hosts) => hosts,
        };
        let mut listeners = Vec::new();
        for addresses in hosts {
            listeners.extend(bind_host(addresses).await?);
        }
        Ok(listeners)
    }
}

async fn bind_host(addresses: Vec<SocketAddr>) -> Result<Vec<BoundListener>, ServerError> {
    let mut listeners = Vec::new();
    let mut missing = None;
    for address in addresses {
        let failed = |error: io::Error| ServerError::Listen { address, source: Arc::new(error) };
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().map_err(failed)?;
                listeners.push((listener, address));
            }
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => missing = Some(failed(error)),
            Err(error) => return Err(failed(error)),
        }
    }
    match (listeners.is_empty(), missing) {
        (true, Some(error)) => Err(error),
        _ => Ok(listeners),
    }
}
