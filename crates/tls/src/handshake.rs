//! Why there was no TLS handshake, in words for an operator, and whether trying again can help.

use std::fmt;
use std::io;

use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

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
    pub(crate) fn of_name() -> Self {
        Self::Refused("no certificate can be for this name; say `server_name=NAME`".to_owned())
    }

    /// Tells what the handshake with a server of this name ended with, also one that another client of rustls has made.
    pub fn of_io(error: io::Error, name: &str) -> Self {
        match cause(&error) {
            Some(rustls::Error::InvalidCertificate(reason)) => Self::Refused(of_certificate(reason, name)),
            Some(rustls::Error::AlertReceived(alert)) => Self::of_description(*alert),
            Some(rustls::Error::InvalidMessage(_)) => Self::NotTls,
            Some(other) => Self::Refused(format!("the TLS handshake failed: {other}")),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::HungUp,
            None => Self::Broken(error),
        }
    }

    /// Tells what an alert means that ended a connection; `None` if that was not by an alert. In TLS 1.3 a server
    /// refuses our certificate, or the lack of one, after the handshake.
    pub fn of_alert(error: &io::Error) -> Option<Self> {
        match cause(error) {
            Some(rustls::Error::AlertReceived(alert)) => Some(Self::of_description(*alert)),
            _ => None,
        }
    }

    fn of_description(alert: AlertDescription) -> Self {
        match alert {
            // Trouble inside the server, which may pass.
            AlertDescription::InternalError | AlertDescription::UserCanceled => {
                let message = format!("the server gave up ({alert:?})");
                Self::Broken(io::Error::new(io::ErrorKind::ConnectionAborted, message))
            }
            // Some servers say the latter where there is none.
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate => Self::Refused(format!(
                "the server refused the TLS handshake ({alert:?}): it asks for a certificate, which `cert` and `key` \
                 name"
            )),
            _ => Self::Refused(format!("the server refused the TLS handshake ({alert:?})")),
        }
    }
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
            format!("its certificate is not for the name `{name}`")
        }
        reason => format!("its certificate is not accepted: {reason}"),
    }
}
