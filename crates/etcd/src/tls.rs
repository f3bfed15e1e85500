//! TLS to the servers: what the keys of an `etcd+tls:` URL name, and the files behind them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lockkeeper_core::{Error, ErrorKind, Operation, Result, ServiceUrl};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// The keys that an `etcd+tls:` URL may have besides those of `etcd:`.
pub(crate) const KEYS: [&str; 4] = ["ca", "cert", "key", "server_name"];

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// Reads the files that a URL names; later changes of them have no effect.
pub(crate) fn settings(url: &ServiceUrl) -> Result<ClientTlsConfig> {
    let mut settings = ClientTlsConfig::new();
    settings = match file(url, "ca")? {
        Some(ca) => settings.ca_certificate(Certificate::from_pem(read(&ca)?)),
        None => settings.with_native_roots(),
    };
    settings = match (file(url, "cert")?, file(url, "key")?) {
        (Some(cert), Some(key)) => settings.identity(Identity::from_pem(read(&cert)?, read(&key)?)),
        (None, None) => settings,
        (Some(_), None) => return Err(invalid("`cert` without `key`: a certificate is of no use without its key")),
        (None, Some(_)) => return Err(invalid("`key` without `cert`: a key is of no use without its certificate")),
    };
    Ok(match url.query("server_name") {
        Some("") => return Err(invalid("`server_name` is empty")),
        Some(name) => settings.domain_name(name),
        None => settings,
    })
}

fn file(url: &ServiceUrl, key: &str) -> Result<Option<PathBuf>> {
    match url.query(key) {
        Some("") => Err(invalid(format!("`{key}` names no file"))),
        path => Ok(path.map(PathBuf::from)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let unusable = |why: &str| {
        let message = format!("{} {why}", path.display());
        Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
    };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|error| unusable("cannot be read").caused_by(error))?;
    if text.len() as u64 > PEM_BYTES_MAX {
        return Err(unusable(&format!("is longer than {PEM_BYTES_MAX} bytes")));
    }
    if !text.windows(PEM_MARK.len()).any(|window| window == PEM_MARK) {
        return Err(unusable("is not a file in PEM form"));
    }
    Ok(text)
}

/// What stands before each part of a PEM file.
const PEM_MARK: &[u8] = b"-----BEGIN ";

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
        ] {
            let error = settings(&format!("etcd+tls://h1?{query}").parse().unwrap()).expect_err(query);
            assert_eq!(error.kind(), kind, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }
}
