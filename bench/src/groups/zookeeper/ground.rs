//! A server to measure on, and the peers with sessions on it.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Peer, curator};
use lockkeeper_faults::zookeeper::{Ensemble, Server, ServerWords, Setup};

use crate::groups::server::process::Server as Embedded;
use crate::load::Outcome;
use crate::report::rows::{APACHE_3, EMBEDDED};
use crate::report::{Group, Record};

/// Of every client. Apache grants up to 20 ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

const ENSEMBLE: usize = 3;

/// How many locks Curator takes before any is counted: by then its virtual machine has compiled what it runs.
const WARM_UP_LOCKS: u32 = 1_500;
const WARM_UP_TURN: u32 = 500;

/// A server, and Curator if it is installed.
pub(super) struct Ground {
    pub(super) name: &'static str,
    address: SocketAddr,
    pub(super) curator: Option<Peer>,
    /// What must stay for the server to run.
    _servers: Box<dyn Any + Send + Sync>,
}

impl Ground {
    pub(super) async fn start(name: &'static str) -> Outcome<Self> {
        let (servers, address): (Box<dyn Any + Send + Sync>, _) = match name {
            APACHE_3 => {
                let ensemble = Ensemble::start_on_disk(ENSEMBLE, Setup::new()).await?;
                let follower = ensemble.follower().await?;
                let address = ensemble.servers()[follower].address();
                (Box::new(ensemble), address)
            }
            EMBEDDED => {
                let server = Embedded::embedded()?;
                let address = server.address;
                (Box::new(server), address)
            }
            _ => {
                let server = Server::standalone_on_disk(Setup::new()).await?;
                let address = server.address();
                (Box::new(server), address)
            }
        };
        let mut ground = Self { name, address, curator: None, _servers: servers };
        if curator::availability() == Availability::Present {
            let mut peer = ground.start_curator().await?;
            for _ in 0..WARM_UP_LOCKS / WARM_UP_TURN {
                peer.time_alone("/bench/curator-warm-up", WARM_UP_TURN, Duration::ZERO).await?;
            }
            ground.curator = Some(peer);
        }
        Ok(ground)
    }

    /// Another process of Curator's.
    pub(super) async fn start_curator(&self) -> Outcome<Peer> {
        Ok(curator::start_to_measure(&self.connect(), SESSION_TIMEOUT).await?)
    }

    /// Writes down that Curator is not installed.
    pub(super) fn note_missing(&self, record: &mut Record) {
        if let Availability::Missing(why) = curator::availability() {
            record.peer_missing(Group::ZooKeeper, self.name, "Curator", &why);
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
