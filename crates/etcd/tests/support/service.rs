//! Clients of etcd for the trials that all backends share.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Result, ServiceUrl};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_trials::Service;

pub(crate) const ETCD: Service = Service { url, open };

fn url(servers: &[SocketAddr], settings: &str) -> String {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    format!("etcd://{}?{settings}", hosts.join(","))
}

fn open(url: &ServiceUrl) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(EtcdBackend::open(url)?))
}
