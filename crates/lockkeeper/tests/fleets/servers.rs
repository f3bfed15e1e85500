//! A server of each service that keeps what it has acknowledged, and can be killed and started again.

use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::redis::Flush;
use lockkeeper_faults::server::{Kind, Server};
use lockkeeper_faults::{Availability, etcd, mariadb, postgres, redis, zookeeper};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The sessions of a fleet are short, so that many faults fit into a trial.
const SETTINGS: &str = "session_timeout=4s";

/// The greatest session timeout that databases allow, for which their locks rest after a crash.
const TIMEOUT_MAX: Duration = Duration::from_secs(4);

/// A service: its name, whether it can be started here, and how.
pub(crate) type FleetService = (&'static str, fn() -> Availability, fn(&Runtime) -> Result<FleetServer, Failed>);

pub(crate) const SERVICES: [FleetService; 6] = [
    ("etcd", etcd::availability, |runtime| {
        let server = runtime.block_on(etcd::Server::standalone())?;
        Ok(FleetServer::running(server, |at| format!("etcd://{at}?{SETTINGS}")))
    }),
    ("files", || Availability::Present, |_| Ok(FleetServer::Directory(tempfile::tempdir()?))),
    ("mariadb", mariadb::availability, |runtime| {
        let server = runtime.block_on(mariadb::Setup::new().durable().start())?;
        limited(FleetServer::running(server, |at| format!("mariadb://root@{at}/?{SETTINGS}")), runtime)
    }),
    ("postgresql", postgres::availability, |runtime| {
        let server = runtime.block_on(postgres::Setup::new().durable().start())?;
        limited(FleetServer::running(server, |at| format!("postgres://postgres@{at}/postgres?{SETTINGS}")), runtime)
    }),
    ("redis", redis::availability, |runtime| {
        let server = runtime.block_on(redis::Setup::new().append_only(Flush::Always).start())?;
        Ok(FleetServer::running(server, |at| format!("redis://{at}?{SETTINGS}")))
    }),
    ("zookeeper", zookeeper::availability, |runtime| {
        let server = runtime.block_on(zookeeper::Server::standalone(zookeeper::Setup::new()))?;
        Ok(FleetServer::running(server, |at| format!("zk://{at}?{SETTINGS}")))
    }),
];

/// Has the locks of a database rest for no longer than its sessions last.
fn limited(server: FleetServer, runtime: &Runtime) -> Result<FleetServer, Failed> {
    runtime.block_on(async {
        let keeper = lockkeeper::connect(server.url(server.address()).as_str())?;
        keeper.admin().set_up().await?;
        keeper.admin().limit_session_timeout(TIMEOUT_MAX).await?;
        keeper.close().await
    })?;
    Ok(server)
}

/// A server, or the directory that stands for one.
pub(crate) enum FleetServer {
    Directory(TempDir),
    Running { server: Box<dyn Harmed>, url: fn(SocketAddr) -> String },
}

/// A server that is killed and comes back.
pub(crate) trait Harmed {
    fn address(&self) -> SocketAddr;

    fn kill(&mut self);

    /// Starts it where it was, with its data, and waits until it serves.
    fn start(&mut self, runtime: &Runtime) -> lockkeeper_faults::Result<()>;
}

impl<K: Kind> Harmed for Server<K> {
    fn address(&self) -> SocketAddr {
        Self::address(self)
    }

    fn kill(&mut self) {
        Self::kill(self);
    }

    fn start(&mut self, runtime: &Runtime) -> lockkeeper_faults::Result<()> {
        Self::start(self)?;
        runtime.block_on(self.serving())
    }
}

impl FleetServer {
    fn running<K: Kind + 'static>(server: Server<K>, url: fn(SocketAddr) -> String) -> Self {
        Self::Running { server: Box::new(server), url }
    }

    /// Where clients find it; a directory is not found over a network.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Directory(_) => None,
            Self::Running { server, .. } => Some(server.address()),
        }
    }

    /// The URL by way of this address.
    pub(crate) fn url(&self, address: Option<SocketAddr>) -> String {
        match (self, address) {
            (Self::Running { url, .. }, Some(address)) => url(address),
            (Self::Running { server, url }, None) => url(server.address()),
            (Self::Directory(folder), _) => format!("file:{}", folder.path().display()),
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Self::Running { server, .. } = self {
            server.kill();
        }
    }

    /// Starts it where it was, with its data, and waits until it serves.
    pub(crate) fn start(&mut self, runtime: &Runtime) -> lockkeeper_faults::Result<()> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Running { server, .. } => server.start(runtime),
        }
    }
}
