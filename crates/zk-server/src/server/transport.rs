//! The transport of a listener: TCP as it is, or TLS over it. It hands each connection's task its stream.

use tokio::net::TcpStream;

use crate::measures::ServerMeasures;
use crate::server::link::LinkTask;
#[cfg(feature = "tls")]
use crate::server::tls::Tls;

/// How clients reach the server.
#[derive(Clone, Debug, Default)]
pub(super) enum Transport {
    #[default]
    Plain,
    #[cfg(feature = "tls")]
    Tls(Tls),
}

impl Transport {
    /// The scheme of the URLs that clients connect to.
    pub(super) const fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "zk",
            #[cfg(feature = "tls")]
            Self::Tls(_) => "zk+tls",
        }
    }

    /// Serves a client that has connected. A handshake is part of its task, so that none holds up another client.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "only TLS refuses clients here"))]
    pub(super) async fn run(self, task: LinkTask, stream: TcpStream, measures: &ServerMeasures) {
        match self {
            Self::Plain => task.run(stream, reset_at_close).await,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let id = task.id();
                let refused = |error: &std::io::Error| {
                    tracing::debug!(connection = %id, %error, "no TLS handshake");
                    measures.refused("tls_handshake");
                };
                let shaken = async { tls.accept(stream).await.inspect_err(refused).ok() };
                task.run_once_open(shaken, |stream| reset_at_close(stream.get_ref().0)).await;
            }
        }
    }
}

/// Has the connection reset instead of closed, as a dying host does.
fn reset_at_close(stream: &TcpStream) {
    // Best effort: a connection that is closed instead ends just as well.
    let _ = stream.set_zero_linger();
}
