//! A redis-server that is a sentinel, and one of a cluster: on a free port, without persistence, gone with the test.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::process::{self, Process};
use lockkeeper_faults::{Result, wait};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::connection::tests::support::SOON;

/// A sentinel, or a server of a cluster.
pub(super) struct Special {
    _process: Process,
    port: ReservedPort,
    /// Where servers of a cluster talk to one another.
    bus: ReservedPort,
    _folder: TempDir,
}

impl Special {
    /// A sentinel that knows a server as the master `orders`.
    pub(super) async fn sentinel_of(master: SocketAddr) -> Result<Self> {
        Self::start(|folder, port, _| {
            let config = folder.join("sentinel.conf");
            std::fs::write(&config, format!("sentinel monitor orders 127.0.0.1 {} 1\n", master.port()))
                .expect("a file");
            [&config.display().to_string(), "--sentinel", "--port", port].map(str::to_owned).to_vec()
        })
        .await
    }

    /// A server of a cluster, which knows no other and has no keys.
    pub(super) async fn of_cluster() -> Result<Self> {
        Self::start(|_, port, bus| {
            ["--port", port, "--cluster-enabled", "yes", "--cluster-port", bus].map(str::to_owned).to_vec()
        })
        .await
    }

    /// Starts one with what the settings say for its folder, its port and its port of a cluster.
    async fn start(settings: impl FnOnce(&Path, &str, &str) -> Vec<String>) -> Result<Self> {
        let (port, bus) = (ReservedPort::take()?, ReservedPort::take()?);
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), &port.number().to_string(), &bus.number().to_string());
        let mut command = process::command("redis-server");
        command.args(settings).args(["--bind", "127.0.0.1", "--save", ""]);
        command.current_dir(folder.path()).stdout(Stdio::null());
        let server = Self { _process: Process::start(command)?, port, bus, _folder: folder };
        let serving = async || TcpStream::connect(server.address()).await.ok();
        wait::until("the start of redis-server", SOON, serving).await?;
        Ok(server)
    }

    pub(super) fn bus_port(&self) -> u16 {
        self.bus.number()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.port.address()
    }
}
