//! Lockkeeper's own mutex on each of its services.

use lockkeeper_faults::{Availability, Result};

use super::own::{self, Contention, Kind};
use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::Program;
use crate::stage::Service;

pub(super) const ZOOKEEPER: Rival = on("Lockkeeper on ZooKeeper", Service::ZooKeeper);
pub(super) const ETCD: Rival = on("Lockkeeper on etcd", Service::Etcd);
pub(super) const REDIS: Rival = on("Lockkeeper on Redis", Service::Redis);
pub(super) const POSTGRES: Rival = on("Lockkeeper on PostgreSQL", Service::Postgres);
pub(super) const FILES: Rival = on("Lockkeeper on files", Service::Files);

const fn on(name: &'static str, service: Service) -> Rival {
    let asks = "`hold.is_held()`";
    Rival { name, owner: Owner::Ours, service, asks, availability: || Availability::Present, program }
}

fn program(place: &Place) -> Result<Program> {
    own::program(Kind::Ours, &url(place), place)
}

fn url(place: &Place) -> String {
    let (hosts, timeout) = (place.hosts(), format!("session_timeout={}s", TIMEOUT.as_secs()));
    match place.service {
        Service::ZooKeeper => format!("zk://{hosts}?{timeout}"),
        Service::Etcd => format!("etcd://{hosts}?{timeout}"),
        Service::Redis | Service::ThreeRedis => format!("redis://{hosts}?{timeout}"),
        Service::Postgres => format!("postgres://postgres@{hosts}/postgres?{timeout}"),
        Service::Files => format!("file:{}", place.folder.display()),
    }
}

/// Holds a mutex.
pub(super) async fn contend(url: &str, lock: &str) -> Contention<()> {
    let keeper = lockkeeper::connect(url)?;
    let mutex = keeper.mutex(lock)?;
    own::say_waiting();
    let guard = mutex.lock().await?;
    own::say_granted(Some(guard.fencing_token().as_u64()));
    let hold = guard.hold();
    own::answer(async || hold.is_held()).await;
    Ok(())
}
