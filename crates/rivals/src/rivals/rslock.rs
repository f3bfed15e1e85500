//! The crate `rslock`: Redlock over three servers. Its `using` renews the lock while what it runs goes on.

use std::convert::Infallible;

use lockkeeper_faults::{Availability, Result};
use rslock::LockManager;

use super::own::{self, Contention, Kind};
use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::Program;
use crate::stage::Service;

pub(super) const RIVAL: Rival = Rival {
    name: "rslock (Redlock, three servers)",
    owner: Owner::Other,
    service: Service::ThreeRedis,
    asks: "what `using` runs goes on",
    availability: || Availability::Present,
    program,
};

fn program(place: &Place) -> Result<Program> {
    own::program(Kind::Rslock, &place.hosts(), place)
}

/// Holds a lock.
pub(super) async fn contend(servers: &str, lock: &str) -> Contention<()> {
    let manager = LockManager::new(servers.split(',').map(|server| format!("redis://{server}/")).collect());
    own::say_waiting();
    let work = async || -> Infallible {
        own::say_granted(None);
        own::answer(async || true).await;
        unreachable!("it answers for ever")
    };
    let Err(error) = manager.using(lock.as_bytes(), TIMEOUT, work).await;
    eprintln!("lost, by: {error}");
    own::answer(async || false).await;
    Ok(())
}
