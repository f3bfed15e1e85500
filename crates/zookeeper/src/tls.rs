//! Connects to a server over TLS, on a connection as `TcpDial` makes it.

use std::io;

use lockkeeper_core::{BoxFuture, Result};
use lockkeeper_session::{Failure, Server, Stream, connect_tcp, resolve};
use lockkeeper_tls::{Connector, HandshakeError, Settings};

use crate::dial::Dial;

/// TLS over TCP.
#[derive(Clone, Debug)]
pub(crate) struct TlsDial(Connector);

impl TlsDial {
    /// Reads the files of the settings; later changes of them have no effect.
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        Ok(Self(Connector::new(&settings.read()?)))
    }
}

impl Dial for TlsDial {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        match self.0.name_of(&server.name) {
            Ok(_) => resolve(server),
            Err(error) => Box::pin(std::future::ready(Err(of_handshake(&error)))),
        }
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (server, connector) = (server.clone(), self.0.clone());
        Box::pin(async move {
            let stream = connect_tcp(&server).await?;
            let shaken = connector.connect(&server.name, stream).await;
            let stream = shaken.map_err(|error| of_handshake(&error))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Says why there was no handshake. The kind is the dial's: `InvalidData` if only a change of settings or certificates
/// can help.
fn of_handshake(error: &HandshakeError) -> io::Error {
    let failure = Failure::of_handshake(error, "zk");
    let kind = if failure.is_passing() { io::ErrorKind::ConnectionAborted } else { io::ErrorKind::InvalidData };
    io::Error::new(kind, failure.to_string())
}
