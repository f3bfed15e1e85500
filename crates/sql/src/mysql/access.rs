//! The way to a server, as the driver needs it: with TLS by the authorities, the identity and the name that the URL
//! gives; and why no connection was opened.
//!
//! The driver says nothing of the user before the server has shown who it is.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_session::{Failure, GIVE_CREDENTIALS, Server};
#[cfg(feature = "tls")]
use lockkeeper_tls::rustls::crypto::{CryptoProvider, ring};
#[cfg(feature = "tls")]
use lockkeeper_tls::{Connector, HandshakeError, OurCertificate, TlsMaterial, rustls};
#[cfg(feature = "tls")]
use mysql_async::{ClientIdentity, DriverError, IoError, SslOpts};
use mysql_async::{Conn, Error, Opts, OptsBuilder};

use crate::mysql::refusal;
use crate::url::Config;

/// The least time after which the server ends a connection that says nothing.
pub(super) const SILENCE_MIN: Duration = Duration::from_secs(60);

/// The longest answer or request, in bytes: a join of a thousand entries has less than one.
const PACKET_BYTES_MAX: usize = 16 << 20;

/// How a server is connected to.
pub(super) fn access(config: &Config, server: &Server) -> Result<Opts, Failure> {
    let access = OptsBuilder::default()
        .ip_or_hostname(server.name.as_str())
        .resolved_ips(server.address.filter(|way| !is_scoped(way)).map(|way| vec![way.ip()]))
        .tcp_port(server.address.map_or(server.port, |way| way.port()))
        .socket(server.socket().map(|path| path.display().to_string()))
        .user(config.user.as_deref())
        .pass(config.password.as_deref())
        // Else it would go past a proxy, by the server's socket in the file system.
        .prefer_socket(false)
        .stmt_cache_size(0)
        // One that was given up while its way was cut off is not kept for ever.
        .tcp_keepalive(Some(config.session_timeout()))
        // Else it would ask the server for both.
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        .wait_timeout(Some(usize::try_from(SILENCE_MIN.as_secs()).unwrap_or(usize::MAX)));
    #[cfg(feature = "tls")]
    if let Some(material) = &config.tls {
        return Ok(access.ssl_opts(tls_settings(material, server)?).into());
    }
    Ok(access.into())
}

/// Whether an address means something on one interface alone: the driver would forget which, so it resolves that
/// itself.
const fn is_scoped(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(address) if address.scope_id() != 0)
}

/// Opens a connection and says who we are.
pub(super) async fn begin(access: &Opts) -> Result<Conn, Failure> {
    Conn::new(access.clone()).await.map_err(|error| of_opening(error, access))
}

/// What the driver needs to speak TLS with a server.
#[cfg(feature = "tls")]
fn tls_settings(material: &TlsMaterial, server: &Server) -> Result<SslOpts, Failure> {
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
#[cfg(feature = "tls")]
fn tls_failure(error: Error, access: &Opts) -> Result<Failure, Error> {
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

/// Judges why a connection was not opened.
fn of_opening(error: Error, access: &Opts) -> Failure {
    #[cfg(feature = "tls")]
    let error = match tls_failure(error, access) {
        Ok(failure) => return failure,
        Err(error) => error,
    };
    let (of_tls, of_password) = match &error {
        Error::Server(said) => (hint_to_tls(said.code, access), hint_to_password(said.code, access)),
        _ => ("", ""),
    };
    refusal::of_greeting(error).with_hint(of_tls).with_hint(of_password)
}

/// What the server says of a user whom it does not know, or whose password is wrong.
const UNKNOWN: [u16; 2] = [1045, 1698];

fn hint_to_password(code: u16, access: &Opts) -> &'static str {
    if UNKNOWN.contains(&code) && access.pass().is_none() { GIVE_CREDENTIALS } else { "" }
}

/// What TLS may have to do with a refusal. Of a user who must use it, or must show a certificate, servers say the same
/// as of a wrong password.
fn hint_to_tls(code: u16, access: &Opts) -> &'static str {
    const MUST: u16 = 3159;
    match access.ssl_opts() {
        None if code == MUST => "; with TLS the URL begins with `mysql+tls:`",
        None if UNKNOWN.contains(&code) => {
            "; it says the same if the user must use TLS, with which the URL begins with `mysql+tls:`"
        }
        #[cfg(feature = "tls")]
        Some(secured) if UNKNOWN.contains(&code) && secured.client_identity().is_none() => {
            "; it says the same if the user must show a certificate, which `cert` and `key` name"
        }
        _ => "",
    }
}
