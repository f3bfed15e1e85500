//! A server of each service, with its URL.

use std::any::Any;

use lockkeeper_faults::{Availability, etcd, mariadb, postgres, redis, zookeeper};

/// A service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Etcd,
    File,
    MariaDb,
    PostgreSql,
    Redis,
    /// By its Unix socket.
    RedisSocket,
    ZooKeeper,
}

/// A server; it ends with this value.
pub(crate) struct Server {
    pub(crate) url: String,
    _running: Box<dyn Any>,
}

impl Service {
    /// Whether it can be started here.
    pub(crate) fn availability(self) -> Availability {
        match self {
            Self::Etcd => etcd::availability(),
            Self::File => Availability::Present,
            Self::MariaDb => mariadb::availability(),
            Self::PostgreSql => postgres::availability(),
            Self::Redis | Self::RedisSocket => redis::availability(),
            Self::ZooKeeper => zookeeper::availability(),
        }
    }

    /// Starts a server; its URL has these settings, which files need not.
    pub(crate) async fn start(self, settings: &str) -> Server {
        match self {
            Self::Etcd => {
                let server = etcd::Server::standalone().await.unwrap();
                Server::of(format!("etcd://{}?{settings}", server.address()), server)
            }
            Self::File => {
                let folder = tempfile::tempdir().unwrap();
                Server::of(format!("file:{}", folder.path().display()), folder)
            }
            Self::MariaDb => {
                let server = mariadb::Server::standalone().await.unwrap();
                Server::of(format!("{}?{settings}", server.url("")), server)
            }
            Self::PostgreSql => {
                let server = postgres::Server::standalone().await.unwrap();
                Server::of(format!("{}?{settings}", server.url("postgres")), server)
            }
            Self::Redis => {
                let server = redis::Server::standalone().await.unwrap();
                Server::of(format!("redis://{}?{settings}", server.address()), server)
            }
            Self::RedisSocket => {
                let server = redis::Server::standalone().await.unwrap();
                let socket = server.socket().display().to_string().replace('/', "%2F");
                Server::of(format!("redis://{socket}?{settings}"), server)
            }
            Self::ZooKeeper => {
                let server = zookeeper::Server::standalone(zookeeper::Setup::new()).await.unwrap();
                Server::of(format!("zk://{}?{settings}", server.address()), server)
            }
        }
    }
}

impl Server {
    fn of(url: String, running: impl Any) -> Self {
        Self { url, _running: Box::new(running) }
    }
}
