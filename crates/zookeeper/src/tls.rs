//! Connects to a server over TLS, on a connection as `TcpDial` makes it.

use std::io;

use lockkeeper_core::{BoxFuture, Result};
use lockkeeper_tls::{Connector, HandshakeError, Settings};

use crate::config::Server;
use crate::dial::{Dial, Stream, connect_tcp, resolve_name};

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
            Ok(_) => resolve_name(server),
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
    let told = error.to_string();
    match error {
        HandshakeError::Refused(_) => io::Error::new(io::ErrorKind::InvalidData, told),
        HandshakeError::NotTls => io::Error::new(io::ErrorKind::InvalidData, told + WITHOUT_TLS),
        HandshakeError::HungUp => io::Error::new(io::ErrorKind::UnexpectedEof, told + WITHOUT_TLS),
        HandshakeError::Broken(error) => io::Error::new(error.kind(), told),
    }
}

/// What may help where the other end does not speak TLS.
const WITHOUT_TLS: &str = "; a server without TLS needs `zk:`";
