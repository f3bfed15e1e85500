//! Makes TLS handshakes over streams that the caller has opened.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::ServiceUrl;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::handshake::{HandshakeError, OurCertificate};
use crate::material::{TlsMaterial, TlsSettings};

/// Makes TLS handshakes: TLS 1.3 or 1.2. A server is believed only if an authority that we trust vouches for its name.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    /// The one name in the certificates of all servers; without it each server has its own.
    server_name: Option<ServerName<'static>>,
    ours: OurCertificate,
}

impl Connector {
    /// Takes the authorities, the identity and the server's name from the material.
    pub fn new(material: &TlsMaterial) -> Self {
        Self { config: material.config().clone(), server_name: material.server_name().cloned(), ours: material.ours() }
    }

    /// Tells whether there is a certificate to show.
    pub const fn ours(&self) -> OurCertificate {
        self.ours
    }

    /// Reads the settings of a URL and the files that they name; later changes of them have no effect.
    ///
    /// # Errors
    ///
    /// As for [`TlsSettings::from_url`] and [`TlsSettings::read`].
    pub fn from_url(url: &ServiceUrl) -> lockkeeper_core::Result<Self> {
        Ok(Self::new(&TlsSettings::from_url(url)?.read()?))
    }

    /// Says by ALPN that this protocol is spoken, for servers that speak several.
    #[must_use]
    pub fn speaking(mut self, protocol: &[u8]) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }

    /// Returns the name that the certificate of a host must be for.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::Refused`]: no certificate can be for the host's name, and the settings give no other.
    pub fn name_of(&self, host: &str) -> Result<ServerName<'static>, HandshakeError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => ServerName::try_from(host.to_owned()).map_err(|_| HandshakeError::of_name()),
        }
    }

    /// Makes sure that the other end of the stream is the host. It waits as long as the host does; dropping the future
    /// closes the stream.
    ///
    /// A host that asks for our certificate may refuse it, or the lack of one, only after the handshake (TLS 1.3).
    ///
    /// # Errors
    ///
    /// Why the host is not believed, or there was no handshake.
    pub async fn connect<S>(&self, host: &str, stream: S) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.name_of(host)?;
        let shaken = TlsConnector::from(self.config.clone()).connect(name.clone(), stream).await;
        shaken.map_err(|error| HandshakeError::of_io(error, &name.to_str(), self.ours))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
