//! Reads files in PEM form, and says which one cannot be used and why.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The greatest PEM file, in bytes: all the authorities that browsers trust are a quarter of a million bytes.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
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
pub(crate) fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(path, "is not a file in PEM form").caused_by(error))?;
    match certificates.is_empty() {
        true => Err(unusable(path, "holds no certificate in PEM form")),
        false => Ok(certificates),
    }
}

/// Returns the first private key in the text of a file.
pub(crate) fn key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        unusable(path, "holds no usable private key in PEM form, which is one without a password").caused_by(error)
    })
}

/// Says why a file cannot be used.
pub(crate) fn unusable(path: &Path, why: &str) -> Error {
    unusable_config(format!("{} {why}", path.display()))
}

/// Says why there is no TLS with this configuration.
pub(crate) fn unusable_config(message: impl Into<String>) -> Error {
    Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
}
