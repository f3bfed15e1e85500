//! `etcd grpc-proxy` before a server.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::Server;
use crate::Result;
use crate::daemon::{Daemon, Ground};

/// A proxy of gRPC; dropping it kills it.
#[derive(Debug)]
pub struct GrpcProxy(Daemon);

impl GrpcProxy {
    /// Starts one before a server, of the same release, on a free port.
    pub async fn start(server: &Server) -> Result<Self> {
        let mut daemon = Daemon::new(Ground::default())?;
        let address = daemon.address().to_string();
        let mut command = daemon.command(server.release().server()?);
        command.args(["grpc-proxy", "start", "--endpoints", &server.address().to_string()]);
        command.args(["--listen-addr", &address, "--advertise-client-url", &address]);
        daemon.start(command)?;
        let mut this = Self(daemon);
        let address = this.address();
        this.0.serving(async || TcpStream::connect(address).await.is_ok()).await?;
        Ok(this)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}
