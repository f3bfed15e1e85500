//! TLS to a server, as the driver speaks it: with the authorities, the identity and the name that the URL gives.
//!
//! The driver says nothing of the user before the server has shown who it is.

use lockkeeper_session::{Failure, Server};
use lockkeeper_tls::rustls::crypto::{CryptoProvider, ring};
use lockkeeper_tls::{Connector, HandshakeError, OurCertificate, TlsMaterial, rustls};
use mysql_async::{ClientIdentity, DriverError, Error, IoError, Opts, SslOpts};

/// What the driver needs to speak TLS with a server.
pub(super) fn settings(material: &TlsMaterial, server: &Server) -> Result<SslOpts, Failure> {
    if CryptoProvider::get_default().is_none() {
        // The driver takes the one of the process, and panics if there is none and other crates leave a choice. Another
        // thread may be the first, which is as well.
        let _ = ring::default_provider().install_default();
    }
    let named = Connector::new(material).name_of(&server.name);
    let name = named.map_err(|error| Failure::of_handshake(&error, "mysql"))?;
    let authorities = material.authorities().iter().map(|authority| authority.to_vec().into()).collect();
    let identity = material
        .identity()
        .map(|identity| ClientIdentity::new(identity.cert_pem().to_vec().into(), identity.key_pem().to_vec().into()));
    Ok(SslOpts::default()
        .with_disable_built_in_roots(true)
        .with_root_certs(authorities)
        .with_client_identity(identity)
        // Not a way around the check: it is the name that the certificate must be for.
        .with_danger_tls_hostname_override(Some(name.to_str().into_owned())))
}

/// Judges why a connection was not secured; returns the error if it was for another reason.
pub(super) fn failure(error: Error, access: &Opts) -> Result<Failure, Error> {
    let Some(name) = access.ssl_opts().and_then(SslOpts::tls_hostname_override) else {
        return Err(error);
    };
    let ours = match access.ssl_opts().and_then(SslOpts::client_identity) {
        Some(_) => OurCertificate::Given,
        None => OurCertificate::Missing,
    };
    match error {
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            Ok(Failure::untrusted("the server does not speak TLS; without it the URL begins with `mysql:`"))
        }
        Error::Io(IoError::Io(error)) if error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>()) => {
            Ok(Failure::of_handshake(&HandshakeError::of_io(error, name, ours), "mysql"))
        }
        Error::Io(IoError::Tls(error)) => {
            Ok(Failure::untrusted("the driver cannot speak TLS with these certificates").caused_by(error))
        }
        error => Err(error),
    }
}
