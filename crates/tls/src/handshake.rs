//! Makes TLS handshakes over streams that the caller has opened; why there was none, in words for an operator, and
//! whether trying again can help.

use std::fmt;
use std::io;
use std::sync::Arc;

use lockkeeper_core::ServiceUrl;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig};

use crate::material::{OurCertificate, TlsMaterial, TlsSettings};

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

/// Why there was no TLS handshake. It reads as one line, which does not name the server's address.
#[derive(Debug)]
pub enum HandshakeError {
    /// One end does not accept what the other shows or speaks. Only a change of settings or certificates can help.
    Refused(String),
    /// The other end speaks, but not TLS. Only a change of settings can help.
    NotTls,
    /// The other end hung up. That may pass; or it is a server that does not speak TLS on this port.
    HungUp,
    /// The connection failed, or the server gave up. That may pass.
    Broken(io::Error),
}

impl HandshakeError {
    /// Says that the name in the URL cannot be in a certificate.
    fn of_name() -> Self {
        Self::Refused("no certificate can be for this name; say `server_name=NAME`".to_owned())
    }

    /// Tells what the handshake with a server of this name ended with, also one that another client of rustls has made.
    pub fn of_io(error: io::Error, name: &str, ours: OurCertificate) -> Self {
        match cause(&error) {
            Some(rustls::Error::InvalidCertificate(reason)) => Self::Refused(of_certificate(reason, name)),
            Some(rustls::Error::AlertReceived(alert)) => Self::of_description(*alert, ours),
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            Some(other) => Self::Refused(format!("the TLS handshake failed: {other}")),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::HungUp,
            None => Self::Broken(error),
        }
    }

    /// Tells what an alert means that ended a connection; `None` if that was not by an alert. In TLS 1.3 a server
    /// refuses our certificate, or the lack of one, after the handshake.
    pub fn of_alert(error: &io::Error, ours: OurCertificate) -> Option<Self> {
        match cause(error) {
            Some(rustls::Error::AlertReceived(alert)) => Some(Self::of_description(*alert, ours)),
            _ => None,
        }
    }

    fn of_description(alert: AlertDescription, ours: OurCertificate) -> Self {
        use AlertDescription as Alert;
        let said = words(alert);
        let why = match (alert, ours) {
            // Trouble inside the server, which may pass.
            (Alert::InternalError | Alert::UserCanceled, _) => {
                let message = format!("the server gave up ({said})");
                return Self::Broken(io::Error::new(io::ErrorKind::ConnectionAborted, message));
            }
            // Some servers say the latter where there is none.
            (Alert::CertificateRequired | Alert::BadCertificate, OurCertificate::Missing) => {
                "it asks for a certificate, which `cert` and `key` name"
            }
            // So do others in TLS 1.2, and where the two ends have no cipher in common.
            (Alert::HandshakeFailure, OurCertificate::Missing) => {
                "it may ask for a certificate, which `cert` and `key` name"
            }
            (Alert::UnknownCA, OurCertificate::Given) => {
                "it does not trust the authority of our certificate, which `cert` names"
            }
            (
                Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::DecryptError
                | Alert::UnsupportedCertificate,
                OurCertificate::Given,
            ) => "it does not accept our certificate, which `cert` names",
            (Alert::ProtocolVersion, _) => "it speaks neither TLS 1.3 nor TLS 1.2",
            (Alert::UnrecognisedName, _) => "it has no certificate for this name; `server_name` names another",
            _ => return Self::Refused(format!("the server refused the TLS handshake ({said})")),
        };
        Self::Refused(format!("the server refused the TLS handshake ({said}): {why}"))
    }
}

/// `CertificateRequired` in words, as the standard has it.
fn words(alert: AlertDescription) -> String {
    let mut words = String::new();
    for letter in format!("{alert:?}").chars() {
        if letter.is_ascii_uppercase() && words.ends_with(|last: char| last.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => formatter.write_str(why),
            Self::NotTls => formatter.write_str("the server does not speak TLS on this port"),
            Self::HungUp => formatter.write_str("the server hung up during the TLS handshake"),
            Self::Broken(error) => write!(formatter, "the TLS handshake failed: {error}"),
        }
    }
}

/// The text has the cause already.
impl std::error::Error for HandshakeError {}

fn of_certificate(reason: &CertificateError, name: &str) -> String {
    match reason {
        // The latter is an authority of the same name with another key, such as one that was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not by an authority that is trusted here; `ca` names the authority to trust".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "its certificate is not for the name `{name}`; write the host as the certificate does, or say \
                 `server_name=NAME`"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or this machine's clock is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or this machine's clock is wrong".to_owned()
        }
        CertificateError::Revoked => "its certificate was revoked by its authority".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for servers; its extended key usage must have serverAuth".to_owned()
        }
        // What the crate that checks has no word for, it says in names of its own.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority, which is no server's; let that authority sign one for the \
             server, or make one that is none: openssl req -x509 -addext basicConstraints=critical,CA:FALSE …"
                .to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            "its certificate is of X.509 version 1; make one of version 3".to_owned()
        }
        CertificateError::Other(_) => {
            "its certificate is not accepted; `openssl x509 -text` shows what is unusual in it".to_owned()
        }
        reason => format!("its certificate is not accepted: {reason}"),
    }
}
