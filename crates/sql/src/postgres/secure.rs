//! TLS to a server: it is asked whether it speaks TLS before anything else is said.

use lockkeeper_session::{Effect, Failure, Server, Socket};
use lockkeeper_tls::{Connector, TlsMaterial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The question: its length and its number in PostgreSQL's protocol.
const QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Makes sure that the other end is the server.
pub(super) async fn secure(material: &TlsMaterial, server: &Server, mut socket: Socket) -> Result<Socket, Failure> {
    let unanswered = |error: std::io::Error| Failure::broken(Effect::None).caused_by(error);
    socket.write_all(&QUESTION).await.map_err(unanswered)?;
    // Only this byte is read: what another end put behind it would be taken for a part of the handshake, and refused.
    match socket.read_u8().await.map_err(unanswered)? {
        b'S' => socket.secure(&Connector::new(material), server).await,
        b'N' => Err(Failure::untrusted("the server does not speak TLS; without it the URL begins with `postgres:`")),
        _ => Err(Failure::stranger("the server does not speak as PostgreSQL does")),
    }
}
