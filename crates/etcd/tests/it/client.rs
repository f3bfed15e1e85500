//! Clients of etcd.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_etcd::EtcdBackend;
use lockkeeper_recipes::Keeper;

pub(crate) fn open(url: &str) -> EtcdBackend {
    EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

pub(crate) fn backend(address: SocketAddr, settings: &str) -> EtcdBackend {
    open(&format!("etcd://{address}{settings}"))
}

pub(crate) fn keeper(address: SocketAddr, settings: &str) -> Keeper {
    Keeper::new(Arc::new(backend(address, settings)))
}
