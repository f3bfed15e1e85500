//! A redis-server that speaks TLS, and one that is a sentinel: on a free port, without persistence, gone with the test.

use std::net::SocketAddr;
use std::process::Stdio;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::{Result, wait};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::connection::tests::support::SOON;

/// A server that speaks TLS, or a sentinel.
pub(super) struct Special {
    _process: Process,
    port: ReservedPort,
    _folder: TempDir,
}

impl Special {
    /// One that speaks TLS alone, and asks clients for a certificate.
    #[cfg(feature = "tls")]
    pub(super) async fn over_tls(authority: &lockkeeper_faults::etcd::Authority) -> Result<Self> {
        let file = |name| authority.file(name).display().to_string();
        let papers = [("cert", "server"), ("key", "server-key"), ("ca-cert", "ca")];
        Self::start(|port| {
            let mut settings = ["--port", "0", "--tls-port", &port].map(str::to_owned).to_vec();
            settings.extend(papers.iter().flat_map(|(setting, name)| [format!("--tls-{setting}-file"), file(name)]));
            settings
        })
        .await
    }

    /// A sentinel that knows a server as the master `orders`.
    pub(super) async fn sentinel_of(master: SocketAddr) -> Result<Self> {
        let port = master.port();
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("sentinel.conf");
        std::fs::write(&config, format!("sentinel monitor orders 127.0.0.1 {port} 1\n")).expect("a file");
        Self::start(|port| {
            let config = config.display().to_string();
            vec![config, "--sentinel".to_owned(), "--port".to_owned(), port]
        })
        .await
    }

    async fn start(settings: impl FnOnce(String) -> Vec<String>) -> Result<Self> {
        let port = ReservedPort::take()?;
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = process::command("redis-server");
        command.args(settings(port.number().to_string())).args(["--bind", "127.0.0.1", "--save", ""]);
        command.current_dir(folder.path()).stdout(Stdio::null());
        let server = Self { _process: Process::start(command)?, port, _folder: folder };
        let serving = async || TcpStream::connect(server.address()).await.ok();
        wait::until("the start of redis-server", SOON, serving).await?;
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.address()
    }
}
