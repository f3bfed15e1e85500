//! The stage of one round: real servers, a way to them for each of two contenders, and what happens to the servers.
//!
//! A way is a proxy before each server, so that one contender is cut off alone. Where a replica takes the place of a
//! primary, the way leads to the one that serves, as an address does that moves.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::{Availability, Error, Result, etcd, postgres, redis, zookeeper};
use tempfile::TempDir;

use crate::fault::Fault;

/// What keeps a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Service {
    ZooKeeper,
    Etcd,
    Redis,
    /// Three masters that know nothing of one another.
    ThreeRedis,
    Postgres,
    /// A folder of this machine.
    Files,
}

/// How many servers elect a leader, or hold a lock by their majority: the fewest that outlive one.
const MEMBERS: usize = 3;

impl Service {
    /// Whether it can be started here.
    pub(crate) fn availability(self) -> Availability {
        match self {
            Self::ZooKeeper => zookeeper::availability(),
            Self::Etcd => etcd::availability(),
            Self::Redis | Self::ThreeRedis => redis::availability(),
            Self::Postgres => postgres::availability(),
            Self::Files => Availability::Present,
        }
    }

    /// Why a fault cannot befall it.
    pub(crate) fn lacks(self, fault: Fault) -> Option<&'static str> {
        match (self, fault) {
            (Self::Files, Fault::CutOff) => Some("no network"),
            (Self::Files, Fault::Replaced) => Some("no leader"),
            _ => None,
        }
    }

    /// Whether Lockkeeper promises one holder at a time here: not where all is lost, and on Redis not where a grant is.
    pub(crate) fn promises_exclusion(self, fault: Fault) -> bool {
        fault != Fault::Emptied && (self, fault) != (Self::Redis, Fault::Replaced)
    }
}

#[derive(Debug)]
enum Servers {
    ZooKeeper(zookeeper::Server),
    Ensemble(zookeeper::Ensemble),
    Etcd(etcd::Server),
    Cluster(etcd::Cluster),
    Redis(redis::Server),
    /// A primary, and a replica that lags behind.
    RedisPair(redis::Server, redis::Server),
    ThreeRedis(Vec<redis::Server>),
    Postgres(postgres::Server),
    PostgresPair(postgres::Server, postgres::Server),
    Files,
}

/// The way of one contender to the servers.
#[derive(Debug)]
pub(crate) struct Way(Vec<Proxy>);

impl Way {
    async fn to(servers: &[SocketAddr]) -> Result<Self> {
        let mut proxies = Vec::new();
        for &server in servers {
            proxies.push(Proxy::of_bytes(server).await?);
        }
        Ok(Self(proxies))
    }

    /// Where its contender connects.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(Proxy::address).collect()
    }

    /// Loses what its contender sends.
    pub(crate) fn cut_off(&self) {
        self.0.iter().for_each(|proxy| proxy.set_flow(Direction::ToServer, Flow::Swallow));
    }
}

/// The servers of one round, and the ways to them.
#[derive(Debug)]
pub(crate) struct Stage {
    servers: Servers,
    folder: TempDir,
    pub(crate) holders: Way,
    pub(crate) waiters: Way,
}

impl Stage {
    /// Starts what a fault needs.
    pub(crate) async fn start(service: Service, fault: Fault) -> Result<Self> {
        let servers = Servers::start(service, fault).await?;
        let addresses = servers.addresses();
        let folder = tempfile::tempdir().map_err(Error::io("a folder"))?;
        let (holders, waiters) = (Way::to(&addresses).await?, Way::to(&addresses).await?);
        Ok(Self { servers, folder, holders, waiters })
    }

    /// The folder that keeps a lock of files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("locks")
    }

    /// Whether a contender has to have been there before a replica falls behind: what all locks share is replicated.
    pub(crate) fn wants_forerunner(&self) -> bool {
        matches!(self.servers, Servers::RedisPair(..) | Servers::PostgresPair(..))
    }

    /// Lets a replica receive nothing of what comes now, as one does that lags.
    pub(crate) async fn lag(&self) -> Result<()> {
        match &self.servers {
            Servers::RedisPair(_, replica) => replica.promote().await,
            Servers::PostgresPair(primary, standby) => {
                standby.caught_up(primary).await?;
                standby.fall_behind().await
            }
            _ => Ok(()),
        }
    }

    /// Kills the leader, and puts another in its place.
    pub(crate) async fn replace_leader(&mut self) -> Result<()> {
        let heir = match &mut self.servers {
            Servers::Ensemble(ensemble) => {
                let leader = ensemble.leader().await?;
                ensemble.server_mut(leader).kill();
                return Ok(());
            }
            Servers::Cluster(cluster) => {
                let leader = cluster.leader().await?;
                cluster.server_mut(leader).kill();
                return Ok(());
            }
            // It comes back without its data, as it was set up to keep none.
            Servers::ThreeRedis(servers) => return servers[0].wipe().await,
            Servers::RedisPair(primary, replica) => {
                primary.kill();
                replica.address()
            }
            Servers::PostgresPair(primary, standby) => {
                primary.kill();
                standby.promote().await?;
                standby.address()
            }
            _ => return Err(Error::new("a server that stands alone has no heir")),
        };
        for proxy in [&self.holders, &self.waiters].into_iter().flat_map(|way| &way.0) {
            proxy.turn_to(heir);
            // The primary has closed its connections.
            proxy.cut();
        }
        Ok(())
    }

    /// Has the service lose its data, and serve again.
    pub(crate) async fn empty(&mut self) -> Result<()> {
        match &mut self.servers {
            Servers::ZooKeeper(server) => server.wipe().await,
            Servers::Etcd(server) => server.wipe().await,
            Servers::Redis(server) => server.wipe().await,
            Servers::Postgres(server) => server.wipe().await,
            Servers::ThreeRedis(servers) => {
                for server in servers {
                    server.wipe().await?;
                }
                Ok(())
            }
            Servers::Files => empty(&self.folder()),
            _ => Err(Error::new("several servers are not emptied at once")),
        }
    }
}

/// Removes all that is in a folder, and leaves that.
fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder.display()))? {
        let path = entry.map_err(Error::io(folder.display()))?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(Error::io(path.display()))?;
    }
    Ok(())
}

impl Servers {
    async fn start(service: Service, fault: Fault) -> Result<Self> {
        let is_alone = fault != Fault::Replaced;
        Ok(match service {
            Service::ZooKeeper if is_alone => {
                Self::ZooKeeper(zookeeper::Server::standalone(zookeeper::Setup::new()).await?)
            }
            Service::ZooKeeper => Self::Ensemble(zookeeper::Ensemble::start(MEMBERS, zookeeper::Setup::new()).await?),
            Service::Etcd if is_alone => Self::Etcd(etcd::Server::standalone().await?),
            Service::Etcd => Self::Cluster(etcd::Cluster::start(etcd::Release::Debian, MEMBERS).await?),
            Service::Redis if is_alone => Self::Redis(redis::Server::standalone().await?),
            Service::Redis => {
                let primary = redis::Server::standalone().await?;
                let replica = redis::Setup::new().replica_of(&primary).start().await?;
                replica.replicating().await?;
                Self::RedisPair(primary, replica)
            }
            Service::ThreeRedis => {
                let mut servers = Vec::new();
                for _ in 0..MEMBERS {
                    servers.push(redis::Server::standalone().await?);
                }
                Self::ThreeRedis(servers)
            }
            Service::Postgres if is_alone => Self::Postgres(postgres::Server::standalone().await?),
            Service::Postgres => {
                let primary = postgres::Server::standalone().await?;
                let standby = primary.standby().await?;
                Self::PostgresPair(primary, standby)
            }
            Service::Files => Self::Files,
        })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::ZooKeeper(server) => vec![server.address()],
            Self::Ensemble(ensemble) => ensemble.addresses(),
            Self::Etcd(server) => vec![server.address()],
            Self::Cluster(cluster) => cluster.addresses(),
            Self::Redis(server) | Self::RedisPair(server, _) => vec![server.address()],
            Self::ThreeRedis(servers) => servers.iter().map(redis::Server::address).collect(),
            Self::Postgres(server) | Self::PostgresPair(server, _) => vec![server.address()],
            Self::Files => Vec::new(),
        }
    }
}
