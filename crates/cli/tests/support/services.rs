//! Real servers of each service over a network, as they come, and tests that are the same on several of them.

use std::net::SocketAddr;

use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::{etcd, mariadb, postgres, redis, zookeeper};

use crate::support::can_run;

/// A service over a network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Service {
    ZooKeeper,
    Etcd,
    Redis,
    PostgreSql,
    MariaDb,
}

/// A server that stands alone; it ends with this value.
pub(crate) enum Server {
    ZooKeeper(zookeeper::Server),
    Etcd(etcd::Server),
    Redis(redis::Server),
    PostgreSql(postgres::Server),
    MariaDb(mariadb::Server),
}

impl Service {
    /// Its name, as people write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ZooKeeper => "ZooKeeper",
            Self::Etcd => "etcd",
            Self::Redis => "Redis",
            Self::PostgreSql => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }

    /// Tells whether it can be started; if not, the test is skipped by name.
    pub(crate) fn can_start(self) -> bool {
        can_run(match self {
            Self::ZooKeeper => zookeeper::availability(),
            Self::Etcd => etcd::availability(),
            Self::Redis => redis::availability(),
            Self::PostgreSql => postgres::availability(),
            Self::MariaDb => mariadb::availability(),
        })
    }

    /// Starts a server; `None` where it cannot be started, and the test is skipped.
    pub(crate) async fn start(self) -> Option<Server> {
        if !self.can_start() {
            return None;
        }
        let started = match self {
            Self::ZooKeeper => zookeeper::Server::standalone(zookeeper::Setup::new()).await.map(Server::ZooKeeper),
            Self::Etcd => etcd::Server::standalone().await.map(Server::Etcd),
            Self::Redis => redis::Server::standalone().await.map(Server::Redis),
            Self::PostgreSql => postgres::Server::standalone().await.map(Server::PostgreSql),
            Self::MariaDb => mariadb::Server::standalone().await.map(Server::MariaDb),
        };
        Some(started.expect("a server"))
    }
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::ZooKeeper(server) => server.address(),
            Self::Etcd(server) => server.address(),
            Self::Redis(server) => server.address(),
            Self::PostgreSql(server) => server.address(),
            Self::MariaDb(server) => server.address(),
        }
    }

    /// Its URL, without settings.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::ZooKeeper(server) => format!("zk://{}", server.address()),
            Self::Etcd(server) => format!("etcd://{}", server.address()),
            Self::Redis(server) => format!("redis://{}", server.address()),
            Self::PostgreSql(server) => server.url("postgres"),
            Self::MariaDb(server) => server.url(""),
        }
    }

    /// A proxy before it, and the URL by way of that.
    pub(crate) async fn proxied(&self) -> (Proxy, String) {
        let address = self.address();
        let proxy = Proxy::of_bytes(address).await.expect("a proxy");
        let url = self.url().replace(&address.to_string(), &proxy.address().to_string());
        (proxy, url)
    }
}

/// Makes one test a service, in a build that has its feature: each starts a server and plays the rest with it.
macro_rules! on_each {
    ($play:path: $($service:ident $feature:tt $name:ident;)*) => {$(
        #[cfg(feature = $feature)]
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            use $crate::services::Service;
            if let Some(server) = Service::$service.start().await {
                $play(Service::$service, server).await;
            }
        }
    )*};
}
pub(crate) use on_each;
