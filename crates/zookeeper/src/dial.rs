//! Connecting to servers: by TCP, by TLS, and as a caller gives it.

use std::fmt;
use std::io;

use lockkeeper_core::BoxFuture;
use lockkeeper_session::{Server, Socket, Stream, connect_tcp, resolve};

/// The scheme of a URL without TLS.
const PLAIN: &str = "zk";

/// Opens connections: TCP or TLS in production, an in-memory duplex in tests.
///
/// A stream may hold back bytes until it is flushed. Dropping a future of this trait leaves nothing open.
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
        resolve(server)
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let server = server.clone();
        Box::pin(async move { Ok(Box::new(Socket::of(connect_tcp(&server).await?, PLAIN)) as Box<dyn Stream>) })
    }
}

#[cfg(feature = "tls")]
#[derive(Clone, Debug)]
pub(crate) struct TlsDial(lockkeeper_tls::Connector);

#[cfg(feature = "tls")]
impl TlsDial {
    /// Reads the files of the settings; later changes of them have no effect.
    pub(crate) fn open(settings: &lockkeeper_tls::TlsSettings) -> lockkeeper_core::Result<Self> {
        Ok(Self(lockkeeper_tls::Connector::new(&settings.read()?)))
    }
}

#[cfg(feature = "tls")]
impl Dial for TlsDial {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        match self.0.name_of(&server.name) {
            Ok(_) => resolve(server),
            Err(error) => {
                Box::pin(std::future::ready(Err(lockkeeper_session::Failure::of_handshake(&error, PLAIN).into_io())))
            }
        }
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (server, connector) = (server.clone(), self.0.clone());
        Box::pin(async move {
            let socket = Socket::of(connect_tcp(&server).await?, PLAIN);
            let secured = socket.secure(&connector, &server).await.map_err(lockkeeper_session::Failure::into_io)?;
            Ok(Box::new(secured) as Box<dyn Stream>)
        })
    }
}
