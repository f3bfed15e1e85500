//! The server's side of TLS: its files, checked, and the handshake. Which peers are served is left to the handle.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, CertificateError, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;
/// How long a client may take for its TLS handshake. Apache allows as long for ZooKeeper's own, which comes after it.
const TLS_HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// What a server shows to its clients, and what they must show to it: TLS 1.3 or 1.2, by rustls with ring.
///
/// The files are read once, so a renewed certificate is used after the next start.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads a certificate, followed by its chain, and its key without a password, from files in PEM form. With `ca`,
    /// a client is served only if its certificate is by an authority in that file.
    ///
    /// # Errors
    ///
    /// Says which file cannot be used and why: it cannot be read, is not in PEM form or too long, the certificate has
    /// expired, is an authority's or is not of the key.
    pub fn from_files(cert: &Path, key: &Path, ca: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(cert)?;
        check(cert, &chain[0], &provider)?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| {
            TlsError::new(key, "holds no usable private key in PEM form, which is one without a password").by(error)
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has what its own protocol versions need");
        let builder = match ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(ca)?), provider)
                    .build()
                    .map_err(|error| TlsError::new(ca, "holds no authority").by(error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, secret).map_err(|error| {
            TlsError::new(cert, format!("is not the certificate of the key in {}", key.display())).by(error)
        })?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Makes the handshake with a client.
    ///
    /// # Errors
    ///
    /// The client refuses us or is refused, speaks no TLS, hangs up, or takes too long.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        timeout(TLS_HANDSHAKE_MAX, self.acceptor.accept(stream)).await?
    }
}

/// Without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Says which file of TLS cannot be used, and why.
#[derive(Clone, Debug)]
pub struct TlsError {
    path: PathBuf,
    why: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl TlsError {
    fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into(), source: None }
    }

    fn by(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.path.display(), self.why)
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| TlsError::new(path, "cannot be read").by(error))?;
    match text.len() as u64 > PEM_BYTES_MAX {
        true => Err(TlsError::new(path, format!("is longer than {PEM_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// All certificates in a file; it has at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::new(path, "is not a file in PEM form").by(error))?;
    match certificates.is_empty() {
        true => Err(TlsError::new(path, "holds no certificate in PEM form")),
        false => Ok(certificates),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            TlsError::new(path, "holds a certificate that cannot be trusted as an authority").by(error)
        })?;
    }
    Ok(roots)
}

/// Refuses a certificate that clients would refuse for its dates, or since it is an authority's. Whether they trust the
/// authority that it is by is their matter.
fn check(path: &Path, certificate: &CertificateDer<'_>, provider: &CryptoProvider) -> Result<(), TlsError> {
    let parsed = ParsedCertificate::try_from(certificate)
        .map_err(|error| TlsError::new(path, "holds a certificate that cannot be read").by(error))?;
    let nothing_trusted = RootCertStore::empty();
    let algorithms = provider.signature_verification_algorithms.all;
    let checked =
        verify_server_cert_signed_by_trust_anchor(&parsed, &nothing_trusted, &[], UnixTime::now(), algorithms);
    match checked {
        Err(rustls::Error::InvalidCertificate(
            reason @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }),
        )) => Err(TlsError::new(path, format!("holds a certificate that every client refuses: {reason}"))),
        // The crate that checks has no other word for it.
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            let why = "holds the certificate of an authority, which clients refuse as a server's; let that authority \
                       sign one for the server, or make one that is none: openssl req -x509 -addext \
                       basicConstraints=critical,CA:FALSE …";
            Err(TlsError::new(path, why))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_faults::authority::Authority;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_shakes_hands_is_given_up_after_the_time_for_it() {
        let authority = Authority::new("localhost").unwrap();
        let material = authority.server_certificate_files();
        let tls = Tls::from_files(&material.cert, &material.key, Some(&material.ca)).unwrap();
        let (_client, server) = tokio::io::duplex(1 << 10);
        let begun = tokio::time::Instant::now();
        let error = tls.accept(server).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed().as_secs()), (io::ErrorKind::TimedOut, TLS_HANDSHAKE_MAX.as_secs()));
    }
}
