//! TLS to the servers: hands what the keys of an `etcd+tls:` URL name to tonic, which makes the handshakes.

use lockkeeper_core::{Result, ServiceUrl};
use lockkeeper_tls::Settings;
use tonic::transport::{ClientTlsConfig, Identity};

/// Reads the files that a URL names; later changes of them have no effect.
pub(crate) fn settings(url: &ServiceUrl) -> Result<ClientTlsConfig> {
    let papers = Settings::from_url(url)?.read()?;
    let mut settings = ClientTlsConfig::new().trust_anchors(papers.roots().roots.iter().cloned());
    if let Some(identity) = papers.identity() {
        settings = settings.identity(Identity::from_pem(identity.cert_pem(), identity.key_pem()));
    }
    if let Some(name) = papers.server_name() {
        settings = settings.domain_name(name.to_str());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::ErrorKind;

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
        ] {
            let error = settings(&format!("etcd+tls://h1?{query}").parse().unwrap()).expect_err(query);
            assert_eq!(error.kind(), kind, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }
}
