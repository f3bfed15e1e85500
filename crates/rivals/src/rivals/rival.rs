//! One lock among those that are compared: where it is kept, how a contender is started, and what that asks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_faults::{Availability, Result};

use crate::contender::Program;
use crate::fault::Fault;
use crate::stage::Service;

/// The session timeout, lease or time to live of all that have one: the shortest that ZooKeeper grants by default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// Whose lock it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    Ours,
    Other,
}

/// Where a contender finds the lock.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) service: Service,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) folder: PathBuf,
    pub(crate) lock: String,
}

impl Place {
    /// `host:port,host:port`.
    pub(crate) fn hosts(&self) -> String {
        self.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
    }
}

/// A lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) owner: Owner,
    pub(crate) service: Service,
    /// What a contender asks to know whether it holds the lock.
    pub(crate) asks: &'static str,
    /// Whether its own programs are here; those of the service are asked for apart.
    pub(crate) availability: fn() -> Availability,
    pub(crate) program: fn(&Place) -> Result<Program>,
}

impl Rival {
    /// Why it cannot be put through a fault here, in a few words.
    pub(crate) fn cannot_stage(&self, fault: Fault) -> Option<String> {
        let missing = match self.service.availability().and(self.availability) {
            Availability::Present => None,
            Availability::Missing(why) => Some(why),
        };
        missing.or_else(|| self.service.lacks(fault).map(str::to_owned))
    }
}
