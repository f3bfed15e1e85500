//! A redis-server of a test: on a free port, without persistence, gone with the test.

use std::net::SocketAddr;
use std::process::Stdio;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::{Availability, Result, wait};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::connection::tests::support::SOON;

pub(super) fn availability() -> Availability {
    let asked = process::command("redis-server").arg("--version").stdout(Stdio::null()).status();
    match asked.is_ok_and(|status| status.success()) {
        true => Availability::Present,
        false => Availability::Missing("redis-server does not run (Debian: redis-server)".to_owned()),
    }
}

/// A server that stands alone.
pub(super) struct Server {
    process: Process,
    port: ReservedPort,
    _folder: TempDir,
}

impl Server {
    pub(super) async fn standalone() -> Result<Self> {
        Self::start(|port| vec!["--port".to_owned(), port]).await
    }

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
        let server = Self { process: Process::start(command)?, port, _folder: folder };
        let serving = async || TcpStream::connect(server.address()).await.ok();
        wait::until("the start of redis-server", SOON, serving).await?;
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    pub(super) fn pause(&mut self) -> Result<()> {
        self.process.pause()
    }

    pub(super) fn resume(&mut self) -> Result<()> {
        self.process.resume()
    }
}
