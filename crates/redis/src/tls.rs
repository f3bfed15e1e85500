//! TLS to the servers: what a handshake that failed is to a connection, and what a server without TLS needs.

use lockkeeper_core::{Result, ServiceUrl};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use lockkeeper_tls::{Connector, HandshakeError, Settings, TlsStream};
use tokio::net::TcpStream;

/// Reads the files that a URL names; later changes of them have no effect.
pub(crate) fn connector(url: &ServiceUrl) -> Result<Connector> {
    Ok(Connector::new(&Settings::from_url(url)?.read()?))
}

/// Makes sure that the other end is the server.
pub(crate) async fn connect(
    connector: &Connector,
    server: &Server,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    connector.connect(&server.name, stream).await.map_err(|error| of_handshake(&error))
}

fn of_handshake(error: &HandshakeError) -> Failure {
    let told = error.to_string();
    match error {
        HandshakeError::Refused(_) => Failure::untrusted(told),
        HandshakeError::NotTls => Failure::untrusted(told + WITHOUT_TLS),
        HandshakeError::HungUp => Failure::new(FailureKind::Broken, Effect::None, told + WITHOUT_TLS),
        HandshakeError::Broken(_) => Failure::new(FailureKind::Broken, Effect::None, told),
    }
}

/// What may help where the other end does not speak TLS.
const WITHOUT_TLS: &str = "; a server without TLS needs `redis:`";

#[cfg(test)]
mod tests {
    use std::io;

    use lockkeeper_core::ErrorKind;

    use super::*;

    #[test]
    fn half_an_identity_an_empty_name_and_a_file_that_is_not_there_are_refused() {
        for (query, kind, words) in [
            ("ca=/no/such/file", ErrorKind::InvalidConfig, "/no/such/file"),
            ("ca=/dev/null", ErrorKind::InvalidConfig, "PEM"),
            ("cert=a", ErrorKind::InvalidUrl, "`cert` without `key`"),
            ("server_name=", ErrorKind::InvalidUrl, "`server_name`"),
        ] {
            let url = format!("redis+tls://h1?{query}").parse().unwrap();
            let error = connector(&url).map(drop).expect_err(query);
            assert_eq!(error.kind(), kind, "{query}");
            assert!(format!("{error:#}").contains(words), "{query}: {error}");
        }
    }

    #[test]
    fn a_handshake_that_failed_is_tried_again_where_that_can_help() {
        let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, is_passing, hint) in [
            (HandshakeError::Refused("its certificate".to_owned()), false, false),
            (HandshakeError::NotTls, false, true),
            (HandshakeError::HungUp, true, true),
            (HandshakeError::Broken(broken()), true, false),
        ] {
            let failure = of_handshake(&error);
            assert_eq!(failure.is_passing(), is_passing, "{failure}");
            assert_eq!(failure.to_string().contains("`redis:`"), hint, "{failure}");
        }
    }
}
