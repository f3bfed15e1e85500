//! TLS to the servers: what the keys of a `redis+tls:` URL name, the files behind them, and the handshake.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::connection::Failure;
use crate::url::Server;

/// The keys that a `redis+tls:` URL may have besides those of `redis:`.
pub(crate) const KEYS: [&str; 4] = ["ca", "cert", "key", "server_name"];

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// TLS 1.3 or 1.2. A server is believed only if an authority that we trust vouches for its name.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    /// The one name in the certificates of all servers; without it each server has its own.
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files that a URL names; later changes of them have no effect.
    pub(crate) fn from_url(url: &ServiceUrl) -> Result<Self> {
        let name = url.query("server_name").map(|name| {
            ServerName::try_from(name.to_owned())
                .map_err(|error| invalid(format!("`server_name` is not a name: `{name}`")).caused_by(error))
        });
        let name = name.transpose()?;
        let identity = match (file(url, "cert")?, file(url, "key")?) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(invalid("`cert` without `key`: a certificate is of no use without its key")),
            (None, Some(_)) => return Err(invalid("`key` without `cert`: a key is of no use without its certificate")),
        };
        let roots = match file(url, "ca")? {
            Some(path) => roots_of(&path)?,
            None => roots_of_the_system()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what its own protocol versions need")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let secret = PrivateKeyDer::from_pem_slice(&read(&key)?)
                    .map_err(|error| unusable(&key, "holds no usable private key in PEM form").caused_by(error))?;
                builder.with_client_auth_cert(certificates(&cert)?, secret).map_err(|error| {
                    let key = key.display();
                    let message = format!("is not the certificate of the key in {key}, or not a certificate");
                    unusable(&cert, &message).caused_by(error)
                })?
            }
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// Makes sure that the other end is the server.
    pub(crate) async fn connect(&self, server: &Server, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(server.name.clone())
                .map_err(|_| Failure::untrusted("no certificate can be for this name; say `server_name=NAME`"))?,
        };
        self.connector.connect(name.clone(), stream).await.map_err(|error| of_handshake(error, &name))
    }
}

/// Says why there was no handshake.
fn of_handshake(error: io::Error, name: &ServerName<'_>) -> Failure {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(reason)) => Failure::untrusted(of_certificate(reason, name)),
        // Trouble inside the server, which may pass.
        Some(rustls::Error::AlertReceived(
            alert @ (AlertDescription::InternalError | AlertDescription::UserCanceled),
        )) => Failure::unreachable(format!("the server gave up the TLS handshake ({alert:?})"), error),
        Some(rustls::Error::AlertReceived(alert)) => {
            Failure::untrusted(format!("the server refused the TLS handshake ({alert:?})"))
        }
        Some(rustls::Error::InvalidMessage(_)) => Failure::untrusted(NO_TLS),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Failure::unreachable(HUNG_UP, error),
        _ => Failure::unreachable("the TLS handshake failed", error),
    }
}

const NO_TLS: &str = "the server does not speak TLS on this port; a server without TLS needs `redis:`";

const HUNG_UP: &str = "the server hung up during the TLS handshake; a server without TLS needs `redis:`";

fn of_certificate(reason: &CertificateError, name: &ServerName<'_>) -> String {
    match reason {
        // The latter is an authority of the same name with another key, such as one that was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not by an authority that is trusted here; `ca` names the authority to trust".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for the name `{}`", name.to_str())
        }
        reason => format!("its certificate is not accepted: {reason}"),
    }
}

fn file(url: &ServiceUrl, key: &str) -> Result<Option<PathBuf>> {
    match url.query(key) {
        Some("") => Err(invalid(format!("`{key}` names no file"))),
        path => Ok(path.map(PathBuf::from)),
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            unusable(path, "holds a certificate that cannot be trusted as an authority").caused_by(error)
        })?;
    }
    Ok(roots)
}

/// Takes what the system trusts. A certificate there that we cannot read is no matter of the caller's.
fn roots_of_the_system() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let error = unusable_config("this system has no certificates of authorities; name a file of them with `ca=FILE`");
    Err(match found.errors.into_iter().next() {
        Some(cause) => error.caused_by(cause),
        None => error,
    })
}

/// Reads all certificates of a file; it has at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path, "is not a file in PEM form").caused_by(error))?;
    match certificates.is_empty() {
        true => Err(unusable(path, "holds no certificate in PEM form")),
        false => Ok(certificates),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| unusable(path, "cannot be read").caused_by(error))?;
    match text.len() as u64 > PEM_BYTES_MAX {
        true => Err(unusable(path, &format!("is longer than {PEM_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

fn unusable(path: &Path, why: &str) -> Error {
    unusable_config(format!("{} {why}", path.display()))
}

fn unusable_config(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidUrl, Operation::Configure, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_identity_an_empty_name_and_a_file_that_is_not_there_are_refused() {
        for (query, kind, words) in [
            ("ca=/no/such/file", ErrorKind::InvalidConfig, "/no/such/file"),
            ("ca=/dev/null", ErrorKind::InvalidConfig, "PEM"),
            ("cert=a", ErrorKind::InvalidUrl, "`cert` without `key`"),
            ("key=a", ErrorKind::InvalidUrl, "`key` without `cert`"),
            ("ca=", ErrorKind::InvalidUrl, "`ca` names no file"),
            ("server_name=", ErrorKind::InvalidUrl, "`server_name`"),
            ("server_name=a%20b", ErrorKind::InvalidUrl, "`server_name`"),
        ] {
            let url = format!("redis+tls://h1?{query}").parse().unwrap();
            let error = Tls::from_url(&url).map(drop).expect_err(query);
            assert_eq!(error.kind(), kind, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }
}
