//! The server under test, run, stopped and wiped as kazoo's tests ask for it.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_zk_server::EmbeddedServer;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// The password of the super user that kazoo's tests know.
const SUPER_PASSWORD: &str = "test";
/// The same for Apache: `super:` and the digest of `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// One of the two servers.
pub(crate) enum Host {
    Apache(Server),
    Embedded { port: ReservedPort, folder: TempDir, server: Option<EmbeddedServer> },
}

impl Host {
    pub(crate) async fn apache() -> Self {
        let setup = Setup::new()
            .entry("maxClientCnxns", "0")
            .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST)
            .property("zookeeper.extendedTypesEnabled", "true");
        Self::Apache(Server::standalone(setup).await.unwrap())
    }

    pub(crate) fn embedded() -> Self {
        let (port, folder) = (ReservedPort::take().unwrap(), tempfile::tempdir().unwrap());
        Self::Embedded { port, folder, server: None }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Apache(_) => "Apache",
            Self::Embedded { .. } => "embedded",
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Apache(server) => server.address(),
            Self::Embedded { port, .. } => port.address(),
        }
    }

    async fn run(&mut self) {
        match self {
            Self::Apache(server) => {
                server.start().unwrap();
                server.serving().await.unwrap();
            }
            Self::Embedded { port, folder, server } => {
                let builder = EmbeddedServer::builder().listen(port.address()).super_password(SUPER_PASSWORD);
                *server = Some(builder.data_dir(folder.path()).start().await.unwrap());
            }
        }
    }

    async fn stop(&mut self) {
        match self {
            Self::Apache(server) => server.stop().await,
            Self::Embedded { server, .. } => {
                if let Some(server) = server.take() {
                    server.shutdown().await;
                }
            }
        }
    }

    /// Stops it and removes all its data.
    pub(crate) async fn wipe(&mut self) {
        self.stop().await;
        match self {
            Self::Apache(server) => empty(&server.data_folder()),
            Self::Embedded { folder, .. } => empty(folder.path()),
        }
    }

    /// Does what one run of the tests asks for, and waits for more until it is dropped.
    pub(crate) async fn obey(&mut self, control: &TcpListener) -> Infallible {
        let (stream, _) = control.accept().await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let mut orders = BufReader::new(reader).lines();
        while let Ok(Some(order)) = orders.next_line().await {
            match order.as_str() {
                "run" => self.run().await,
                "stop" => self.stop().await,
                "wipe" => self.wipe().await,
                other => panic!("kazoo's tests ask for {other:?}"),
            }
            writer.write_all(b"done\n").await.unwrap();
        }
        pending().await
    }
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
}
