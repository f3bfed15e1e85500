//! Clients of ZooKeeper for the trials that all backends share.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Result, ServiceUrl};
use lockkeeper_trials::Service;
use lockkeeper_zookeeper::ZooKeeperBackend;

pub(crate) const ZOOKEEPER: Service = Service { url, open };

/// The URL of these servers of one ensemble.
fn url(servers: &[SocketAddr], settings: &str) -> String {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    format!("zk://{}?{settings}", hosts.join(","))
}

fn open(url: &ServiceUrl) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(ZooKeeperBackend::open(url)?))
}
