//! The settings of a URL that are about TLS, and the content of the files that they name, in PEM form, checked: the
//! configuration of rustls is made from it. A file that cannot be used is named, with the reason.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_core::url::Unset::Means;
use lockkeeper_core::url::{Given, Kind, Setting, invalid};
use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// The settings of a URL that are about TLS, of every service.
pub const SETTINGS: &[Setting] = &[
    Setting::new("ca", Kind::File, Means("the system's")).text("with TLS: the authorities to trust, PEM"),
    Setting::new("cert", Kind::File, Means("none"))
        .text("with TLS: our certificate, followed by its chain, PEM; for servers that ask for one"),
    Setting::new("key", Kind::File, Means("none")).text("with TLS: the certificate's key, PEM"),
    Setting::new("server_name", Kind::Text("a host's name or address", is_server_name), Means("the host's name"))
        .text("with TLS: the name that the servers' certificates are for"),
];

fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// What a URL says about TLS; its files are not opened yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsSettings {
    /// The file of authorities that are trusted for servers; the system's if there is none.
    ca: Option<PathBuf>,
    identity: Option<IdentityFiles>,
    /// The name that every server's certificate must be for; without it each server's own name in the URL.
    server_name: Option<ServerName<'static>>,
}

impl TlsSettings {
    /// Trusts the authorities of this file, or the system's, for servers that each have their own name.
    pub const fn new(ca: Option<PathBuf>) -> Self {
        Self { ca, identity: None, server_name: None }
    }

    /// Reads the [`SETTINGS`] of a URL; other keys are left to the caller.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](lockkeeper_core::ErrorKind::InvalidUrl), permanent: a key names no file or no name, or
    /// `cert` and `key` are not both there.
    pub fn from_url(url: &ServiceUrl) -> Result<Self> {
        let given = Given::of(SETTINGS, url)?;
        let file = |key| Some(given.text(key)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let identity = match (file("cert"), file("key")) {
            (Some(cert), Some(key)) => Some(IdentityFiles { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(invalid("`cert` without `key`: a certificate is of no use without its key")),
            (None, Some(_)) => return Err(invalid("`key` without `cert`: a key is of no use without its certificate")),
        };
        let server_name = ServerName::try_from(given.text("server_name").to_owned()).ok();
        Ok(Self { ca: file("ca"), identity, server_name })
    }

    /// Reads the files, and makes sure that they can be used; later changes of them have no effect.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](lockkeeper_core::ErrorKind::InvalidConfig), permanent, naming the file that cannot be used and
    /// why; also if no `ca` is named and the system has no authorities.
    pub fn read(&self) -> Result<TlsMaterial> {
        let Authorities { certificates, roots } =
            self.ca.as_deref().map_or_else(Authorities::of_the_system, Authorities::of_file)?;
        let identity = match &self.identity {
            Some(files) => Some((files, Identity::of_files(files)?)),
            None => None,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what its own protocol versions need")
            .with_root_certificates(roots);
        let config = match &identity {
            None => builder.with_no_client_auth(),
            Some((IdentityFiles { cert, key }, Identity { cert_pem, key_pem })) => {
                let (chain, secret) = (certificates_in(cert, cert_pem)?, key_in(key, key_pem)?);
                let message = format!("is not the certificate of the key in {}, or not a certificate", key.display());
                builder
                    .with_client_auth_cert(chain, secret)
                    .map_err(|error| unusable(cert, &message).caused_by(error))?
            }
        };
        let (config, identity) = (Arc::new(config), identity.map(|(_, identity)| identity));
        Ok(TlsMaterial { config, authorities: certificates, identity, server_name: self.server_name.clone() })
    }
}

/// The files of our certificate and its key.
#[derive(Clone, Debug, Eq, PartialEq)]
struct IdentityFiles {
    cert: PathBuf,
    key: PathBuf,
}

/// What this end trusts and shows. Everything in it was found to be usable.
#[derive(Clone)]
pub struct TlsMaterial {
    config: Arc<ClientConfig>,
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<Identity>,
    server_name: Option<ServerName<'static>>,
}

/// Whether this end has a certificate to show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is one or not")]
pub enum OurCertificate {
    /// `cert` and `key` name one.
    Given,
    /// There is none.
    Missing,
}

impl TlsMaterial {
    /// Returns the configuration of rustls: TLS 1.3 or 1.2 with ring, without ALPN. A server is believed only if one of
    /// the authorities vouches for its name, which is given with each handshake.
    pub const fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns the certificates of the authorities that are trusted for servers, at least one, for clients that make
    /// their own connections.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// Returns our certificate and key, if the settings name them.
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Tells whether there is a certificate to show.
    pub const fn ours(&self) -> OurCertificate {
        match self.identity {
            Some(_) => OurCertificate::Given,
            None => OurCertificate::Missing,
        }
    }

    /// Returns the one name that the certificates of all servers are for; without it each server has its own.
    pub const fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }
}

/// Without the key.
impl fmt::Debug for TlsMaterial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorities = self.authorities.len();
        formatter
            .debug_struct("TlsMaterial")
            .field("authorities", &authorities)
            .field("identity", &self.identity)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Our certificate and its key, for servers that ask for one. They belong together.
#[derive(Clone)]
pub struct Identity {
    cert_pem: Vec<u8>,
    key_pem: Vec<u8>,
}

impl Identity {
    fn of_files(files: &IdentityFiles) -> Result<Self> {
        Ok(Self { cert_pem: read_file(&files.cert)?, key_pem: read_file(&files.key)? })
    }

    /// Returns the certificate, followed by its chain, in PEM form.
    pub fn cert_pem(&self) -> &[u8] {
        &self.cert_pem
    }

    /// Returns the private key in PEM form; it has no password.
    pub fn key_pem(&self) -> &[u8] {
        &self.key_pem
    }
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The authorities that are trusted for servers, in both forms that clients take.
struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
}

impl Authorities {
    fn of_file(path: &Path) -> Result<Self> {
        let certificates = certificates_in(path, &read_file(path)?)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| {
                unusable(path, "holds a certificate that cannot be trusted as an authority").caused_by(error)
            })?;
        }
        Ok(Self { certificates, roots })
    }

    /// Takes what the system trusts. A certificate there that we cannot read is no matter of the caller's.
    fn of_the_system() -> Result<Self> {
        let mut found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        found.certs.retain(|certificate| roots.add(certificate.clone()).is_ok());
        if !roots.is_empty() {
            return Ok(Self { certificates: found.certs, roots });
        }
        let message = "this system has no certificates of authorities; name a file of them with `ca=FILE`";
        let error = unusable_config(message);
        Err(match found.errors.into_iter().next() {
            Some(cause) => error.caused_by(cause),
            None => error,
        })
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| unusable(path, "cannot be read").caused_by(error))?;
    match text.len() as u64 > PEM_BYTES_MAX {
        true => Err(unusable(path, &format!("is longer than {PEM_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// Returns all certificates in the text of a file; it has at least one.
fn certificates_in(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(path, "is not a file in PEM form").caused_by(error))?;
    match certificates.is_empty() {
        true => Err(unusable(path, "holds no certificate in PEM form")),
        false => Ok(certificates),
    }
}

/// Returns the first private key in the text of a file.
fn key_in(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        unusable(path, "holds no usable private key in PEM form, which is one without a password").caused_by(error)
    })
}

/// Says why a file cannot be used.
fn unusable(path: &Path, why: &str) -> Error {
    unusable_config(format!("{} {why}", path.display()))
}

/// Says why there is no TLS with this configuration.
fn unusable_config(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::ErrorKind;

    use super::*;

    fn settings(query: &str) -> Result<TlsSettings> {
        TlsSettings::from_url(&format!("redis+tls://h1,h2{query}").parse()?)
    }

    #[test]
    fn without_settings_the_system_is_trusted_and_each_server_goes_by_its_own_name() {
        assert_eq!(settings("").unwrap(), TlsSettings::new(None));
    }

    #[test]
    fn every_setting_is_read() {
        let all = settings("?ca=/a&cert=b%26c&key=d&server_name=zk.example").unwrap();
        assert_eq!(all.ca, Some("/a".into()));
        assert_eq!(all.identity, Some(IdentityFiles { cert: "b&c".into(), key: "d".into() }));
        assert_eq!(all.server_name, Some("zk.example".try_into().unwrap()));
        let address = settings("?server_name=127.0.0.1").unwrap();
        assert!(matches!(address.server_name, Some(ServerName::IpAddress(_))));
    }

    #[test]
    fn half_an_identity_and_an_invalid_name_are_refused() {
        for (query, words) in [
            ("?cert=a", "`cert` without `key`"),
            ("?key=a", "`key` without `cert`"),
            ("?server_name=a%20b", "`server_name`"),
            ("?server_name=", "`server_name`"),
        ] {
            let error = settings(query).expect_err(query);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }
}
