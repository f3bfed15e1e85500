//! Reads the keys of a URL that are about TLS. The files that they name are left to `material`.

use std::path::PathBuf;

use lockkeeper_core::url::Unset::Means;
use lockkeeper_core::url::{Given, Kind, Setting, invalid};
use lockkeeper_core::{Result, ServiceUrl};
use tokio_rustls::rustls::pki_types::ServerName;

use crate::material::{IdentityFiles, TlsMaterial};

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
        TlsMaterial::read(self.ca.as_deref(), self.identity.as_ref(), self.server_name.clone())
    }
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
