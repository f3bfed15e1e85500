//! TLS to a server: it is asked whether it speaks TLS before anything else is said.

use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use lockkeeper_tls::{Connector, HandshakeError, Papers, TlsStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The question: its length and its number in PostgreSQL's protocol.
const QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Makes sure that the other end is the server.
pub(super) async fn secure(
    papers: &Papers,
    server: &Server,
    mut stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    let unanswered = |error: std::io::Error| Failure::broken(Effect::None).caused_by(error);
    stream.write_all(&QUESTION).await.map_err(unanswered)?;
    // Only this byte is read: what another end put behind it would be taken for a part of the handshake, and refused.
    match stream.read_u8().await.map_err(unanswered)? {
        b'S' => Connector::new(papers).connect(&server.name, stream).await.map_err(|error| of_handshake(&error)),
        b'N' => Err(Failure::untrusted("the server does not speak TLS; without it the URL begins with `postgres:`")),
        _ => Err(Failure::stranger("the server does not speak as PostgreSQL does")),
    }
}

fn of_handshake(error: &HandshakeError) -> Failure {
    let told = error.to_string();
    match error {
        HandshakeError::Refused(_) | HandshakeError::NotTls => Failure::untrusted(told),
        HandshakeError::HungUp | HandshakeError::Broken(_) => Failure::new(FailureKind::Broken, Effect::None, told),
    }
}
