//! Connects to a server over TLS, on a connection as `TcpDial` makes it.

use std::io;

use lockkeeper_core::{BoxFuture, Result};
use lockkeeper_session::{Failure, Server, Socket, Stream, connect_tcp, resolve};
use lockkeeper_tls::{Connector, Settings};

use crate::dial::{Dial, PLAIN};

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
            Err(error) => Box::pin(std::future::ready(Err(Failure::of_handshake(&error, PLAIN).into_io()))),
        }
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (server, connector) = (server.clone(), self.0.clone());
        Box::pin(async move {
            let socket = Socket::of(connect_tcp(&server).await?, PLAIN);
            let secured = socket.secure(&connector, &server).await.map_err(Failure::into_io)?;
            Ok(Box::new(secured) as Box<dyn Stream>)
        })
    }
}
