//! Connects to a server over TLS, on a connection as `TcpDial` makes it.

use std::fmt;
use std::io;
use std::sync::Arc;

use lockkeeper_core::{BoxFuture, Result};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig};

use crate::config::Server;
use crate::dial::{Dial, Stream, connect_tcp, resolve_name};
use crate::tls::settings::TlsSettings;

/// TLS 1.3 or 1.2 over TCP. A server is believed only if an authority that we trust vouches for its name.
#[derive(Clone)]
pub(crate) struct TlsDial {
    connector: TlsConnector,
    /// The one name in the certificates of all servers; without it each server has its own.
    name: Option<ServerName<'static>>,
}

impl TlsDial {
    /// Reads the files of the settings; later changes of them have no effect.
    pub(crate) fn open(settings: &TlsSettings) -> Result<Self> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what its own protocol versions need");
        let config = settings.identified(settings.trusting(builder)?)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name: settings.server_name.clone() })
    }

    /// Returns the name that the server's certificate must be for.
    fn name_of(&self, server: &Server) -> io::Result<ServerName<'static>> {
        self.name.clone().map_or_else(|| name_of(server), Ok)
    }
}

impl Dial for TlsDial {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        match self.name_of(server) {
            Ok(_) => resolve_name(server),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (server, connector, name) = (server.clone(), self.connector.clone(), self.name_of(server));
        Box::pin(async move {
            let name = name?;
            let stream = connect_tcp(&server).await?;
            let shaken = connector.connect(name.clone(), stream).await;
            let stream = shaken.map_err(|error| of_handshake(error, &name))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

impl fmt::Debug for TlsDial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsDial").field("name", &self.name).finish_non_exhaustive()
    }
}

fn name_of(server: &Server) -> io::Result<ServerName<'static>> {
    ServerName::try_from(server.name.clone()).map_err(|_| {
        let message = "no certificate can be for this name; say `server_name=NAME`";
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Says why there was no handshake. The kind is the dial's: `InvalidData` if only a change of settings or certificates
/// can help.
fn of_handshake(error: io::Error, name: &ServerName<'_>) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let (kind, message) = match cause {
        Some(rustls::Error::InvalidCertificate(reason)) => (error.kind(), of_certificate(reason, name)),
        // Trouble inside the server, which may pass.
        Some(rustls::Error::AlertReceived(
            alert @ (AlertDescription::InternalError | AlertDescription::UserCanceled),
        )) => (io::ErrorKind::ConnectionAborted, format!("the server gave up the TLS handshake: {alert:?}")),
        Some(rustls::Error::AlertReceived(alert)) => {
            (error.kind(), format!("the server refused the TLS handshake: {alert:?}"))
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            (error.kind(), "the server does not speak TLS on this port".to_owned())
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            let message = "the server hung up during the TLS handshake; does it speak TLS on this port?";
            (error.kind(), message.to_owned())
        }
        _ => (error.kind(), format!("the TLS handshake failed: {error}")),
    };
    io::Error::new(kind, message)
}

fn of_certificate(reason: &CertificateError, name: &ServerName<'_>) -> String {
    match reason {
        // The latter is an authority of the same name with another key, such as one that was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not by an authority that is trusted here".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for the name `{}`", name.to_str())
        }
        reason => format!("its certificate is not accepted: {reason}"),
    }
}
