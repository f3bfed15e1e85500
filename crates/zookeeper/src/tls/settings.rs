//! Reads the settings of a `zk+tls:` URL about certificates, and the files that they name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, client::WantsClientCert};

use crate::config::invalid;

/// The keys that a `zk+tls:` URL may have besides those of `zk:`.
pub(crate) const KEYS: [&str; 4] = ["ca", "cert", "key", "server_name"];

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// The TLS settings of a URL; its files are not opened yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TlsSettings {
    /// The file of authorities that are trusted for servers; the system's if there is none.
    ca: Option<PathBuf>,
    identity: Option<Identity>,
    /// The name that every server's certificate must be for; without it each server's own name in the URL.
    pub(super) server_name: Option<ServerName<'static>>,
}

/// The certificate and key for a server that asks for one.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Identity {
    cert: PathBuf,
    key: PathBuf,
}

impl TlsSettings {
    /// Reads the keys that are about TLS.
    pub(crate) fn from_url(url: &ServiceUrl) -> Result<Self> {
        let identity = match (file(url, "cert")?, file(url, "key")?) {
            (Some(cert), Some(key)) => Some(Identity { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(invalid("`cert` without `key`: a certificate is of no use without its key")),
            (None, Some(_)) => return Err(invalid("`key` without `cert`: a key is of no use without its certificate")),
        };
        let server_name = url
            .query("server_name")
            .map(|name| {
                ServerName::try_from(name.to_owned())
                    .map_err(|error| invalid(format!("`server_name` is not a name: `{name}`")).caused_by(error))
            })
            .transpose()?;
        Ok(Self { ca: file(url, "ca")?, identity, server_name })
    }

    /// Returns the trusted authorities; reads the file if one is named.
    pub(super) fn trusting(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
        let roots = match &self.ca {
            Some(path) => roots_of(path)?,
            None => roots_of_the_system()?,
        };
        Ok(builder.with_root_certificates(roots))
    }

    /// Returns our certificate and key; reads the files if they are named.
    pub(super) fn identified(&self, builder: ConfigBuilder<ClientConfig, WantsClientCert>) -> Result<ClientConfig> {
        let Some(Identity { cert, key }) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(cert)?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| unusable(key, "holds no usable private key in PEM form").caused_by(error))?;
        let message = format!("is not the certificate of the key in {}, or not a certificate", key.display());
        builder.with_client_auth_cert(chain, secret).map_err(|error| unusable(cert, &message).caused_by(error))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<TlsSettings> {
        TlsSettings::from_url(&url.parse()?)
    }

    #[test]
    fn without_settings_the_system_is_trusted_and_each_server_goes_by_its_own_name() {
        let plain = settings("zk+tls://h1,h2").unwrap();
        assert_eq!(plain, TlsSettings { ca: None, identity: None, server_name: None });
    }

    #[test]
    fn every_setting_is_read() {
        let all = settings("zk+tls://h1?ca=/a&cert=b%26c&key=d&server_name=zk.example").unwrap();
        assert_eq!(all.ca, Some("/a".into()));
        assert_eq!(all.identity, Some(Identity { cert: "b&c".into(), key: "d".into() }));
        assert_eq!(all.server_name, Some("zk.example".try_into().unwrap()));
        let address = settings("zk+tls://h1?server_name=127.0.0.1").unwrap();
        assert!(matches!(address.server_name, Some(ServerName::IpAddress(_))));
    }

    #[test]
    fn half_an_identity_an_empty_file_name_and_an_invalid_name_are_refused() {
        for (query, words) in [
            ("cert=a", "`cert` without `key`"),
            ("key=a", "`key` without `cert`"),
            ("ca=", "`ca` names no file"),
            ("server_name=a%20b", "`server_name`"),
            ("server_name=", "`server_name`"),
        ] {
            let error = settings(&format!("zk+tls://h1?{query}")).expect_err(query);
            assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }
}
