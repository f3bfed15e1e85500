//! A server to measure on, and the peers with sessions on it.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Peer, curator, kazoo};
use lockkeeper_faults::zookeeper::{Ensemble, Server, ServerWords, Setup};

use super::super::server::process::Server as Embedded;
use crate::Outcome;
use crate::report::rows::{APACHE_3, EMBEDDED};
use crate::report::{Group, Record};

/// Of every client. Apache grants up to 20 ticks.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How many servers are an ensemble.
const ENSEMBLE: usize = 3;

/// How many locks Curator takes before any is counted: by then its virtual machine has compiled what it runs.
const WARM_UP_LOCKS: u32 = 1_500;
const WARM_UP_TURN: u32 = 500;

/// A server, and the peers that are installed.
pub(super) struct Ground {
    pub(super) name: &'static str,
    address: SocketAddr,
    pub(super) curator: Option<Peer>,
    pub(super) kazoo: Option<Peer>,
    _servers: Servers,
}

/// What must stay for the server to run.
#[expect(dead_code, reason = "they end when they are dropped")]
enum Servers {
    Apache(Server),
    Ensemble(Ensemble),
    Embedded(Embedded),
}

impl Ground {
    pub(super) async fn start(name: &'static str) -> Outcome<Self> {
        let (servers, address) = match name {
            APACHE_3 => {
                let ensemble = Ensemble::start_on_disk(ENSEMBLE, Setup::new()).await?;
                let follower = ensemble.follower().await?;
                let address = ensemble.servers()[follower].address();
                (Servers::Ensemble(ensemble), address)
            }
            EMBEDDED => {
                let server = Embedded::embedded()?;
                let address = server.address;
                (Servers::Embedded(server), address)
            }
            _ => {
                let server = Server::standalone_on_disk(Setup::new()).await?;
                let address = server.address();
                (Servers::Apache(server), address)
            }
        };
        let mut ground = Self { name, address, curator: None, kazoo: None, _servers: servers };
        if curator::availability() == Availability::Present {
            let mut peer = ground.start_curator().await?;
            for _ in 0..WARM_UP_LOCKS / WARM_UP_TURN {
                peer.time_alone("/bench/curator-warm-up", WARM_UP_TURN, Duration::ZERO).await?;
            }
            ground.curator = Some(peer);
        }
        if kazoo::availability() == Availability::Present {
            ground.kazoo = Some(kazoo::start(&ground.connect(), SESSION_TIMEOUT).await?);
        }
        Ok(ground)
    }

    /// Another process of Curator's.
    pub(super) async fn start_curator(&self) -> Outcome<Peer> {
        Ok(curator::start_to_measure(&self.connect(), SESSION_TIMEOUT).await?)
    }

    /// Writes down which peers are not installed.
    pub(super) fn note_missing(&self, record: &mut Record) {
        for (peer, what) in [("Curator", curator::availability()), ("kazoo", kazoo::availability())] {
            if let Availability::Missing(why) = what {
                record.peer_missing(Group::ZooKeeper, self.name, peer, &why);
            }
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// As peers want it.
    pub(super) fn connect(&self) -> String {
        self.address.to_string()
    }

    /// As ours wants it.
    pub(super) fn url(&self) -> String {
        format!("zk://{}?session_timeout={}s", self.address, SESSION_TIMEOUT.as_secs())
    }

    /// How many packets of clients the server has had.
    pub(super) async fn received(&self) -> Outcome<u64> {
        Ok(ServerWords::new(self.address).packets().await?.received)
    }
}
